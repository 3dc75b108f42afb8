/* The caller's threads sleep on a semaphore until a callback waits. */
sem_t requests;

void executor(struct hwheel *wheel, void *arg)
{
	(void)wheel;
	(void)arg;
	sem_post(&requests);
}

void *thread(void *wheel)
{
	while (sem_wait(&requests) == 0)
		hwheel_run_queued(wheel);
	return NULL;
}
