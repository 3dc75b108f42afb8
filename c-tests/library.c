/* What the library says of itself. The header's version is the library's. */
#include "ktap.h"

TEST(version_matches_the_header)
{
	char text[32];

	CHECK_EQ(hwheel_version(), HWHEEL_VERSION);
	CHECK_EQ(hwheel_version(), HWHEEL_VERSION_MAJOR << 16 |
		 HWHEEL_VERSION_MINOR << 8 | HWHEEL_VERSION_PATCH);
	snprintf(text, sizeof text, "%d.%d.%d", HWHEEL_VERSION_MAJOR,
		 HWHEEL_VERSION_MINOR, HWHEEL_VERSION_PATCH);
	CHECK(strcmp(text, hwheel_version_string()) == 0);
}

/* hwheel_strerror(): words for every error that the header names. */

TEST(every_error_has_words_of_its_own)
{
	static const int errors[] = {
		EINVAL, ESTALE, ENOSPC, ENOMEM, EBUSY, EDEADLK, ESHUTDOWN, E2BIG, EMFILE,
		ENFILE, EAGAIN, EUSERS,
	};
	enum { N = sizeof errors / sizeof errors[0] };

	for (int i = 0; i < N; i++) {
		const char *words = hwheel_strerror(-errors[i]);

		CHECK(words != NULL && strlen(words) > 5);
		CHECK(strcmp(words, hwheel_strerror(-99999)) != 0);
		CHECK(strcmp(words, hwheel_strerror(0)) != 0);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(words, hwheel_strerror(-errors[j])) != 0);
	}
	CHECK(strcmp(hwheel_strerror(-ESTALE), "the timer no longer exists") == 0);
	CHECK(strcmp(hwheel_strerror(-EINVAL),
		     "an argument is not valid, or not for this wheel") == 0);
	CHECK(strcmp(hwheel_strerror(-EBUSY),
		     "the wheel is in use by a driver or by a stop") == 0);
	CHECK(strcmp(hwheel_strerror(-ESHUTDOWN),
		     "the timer or the wheel is shut down, or this is a forked child") == 0);
}

TEST(any_number_has_words)
{
	CHECK(strcmp(hwheel_strerror(0), "success") == 0);
	CHECK(strcmp(hwheel_strerror(1), "success") == 0);
	CHECK(strcmp(hwheel_strerror(INT32_MAX), "success") == 0);
	CHECK(strcmp(hwheel_strerror(-12345), "unknown error") == 0);
	CHECK(strcmp(hwheel_strerror(INT32_MIN), "unknown error") == 0);
}
