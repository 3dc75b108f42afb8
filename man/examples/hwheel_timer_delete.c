struct object {
	hwheel_timer_t timer; /* 0 when the object is gone */
};

/* An event of an object that has gone away since is not handled. */
void handle(struct object *objects, const struct hwheel_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		struct object *object = &objects[events[i].cookie];

		if (object->timer == events[i].timer)
			timed_out(object);
	}
}

void go_away(struct hwheel *wheel, struct object *object)
{
	hwheel_timer_delete(wheel, object->timer);
	object->timer = 0;
}
