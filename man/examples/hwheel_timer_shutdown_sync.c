struct object {
	hwheel_timer_t timer; /* its callback uses the object */
};

/* The callback does not run any more, so that the object can be freed. */
void destroy_object(struct hwheel *wheel, struct object *object)
{
	hwheel_timer_shutdown_sync(wheel, object->timer);
	hwheel_timer_free(wheel, object->timer);
	free(object);
}
