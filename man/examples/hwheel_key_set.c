/* A request of a user puts the end of the session off. */
int on_request(struct hwheel *wheel, const char *user, hwheel_fn expired, uint64_t cookie)
{
	return hwheel_key_set(wheel, user, (uint32_t)strlen(user), 600 * HWHEEL_SEC, expired,
			      cookie, 0);
}

/* A number is a key, too. */
int on_packet(struct hwheel *wheel, uint64_t connection, hwheel_fn expired)
{
	return hwheel_key_set(wheel, &connection, sizeof(connection), 60 * HWHEEL_SEC, expired,
			      connection, 0);
}
