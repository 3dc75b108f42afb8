/* The header's version is the library's. */
#include "ktap.h"

static void version_matches_the_header(void)
{
	char text[32];

	CHECK_EQ(hwheel_version(), HWHEEL_VERSION);
	CHECK_EQ(hwheel_version(), HWHEEL_VERSION_MAJOR << 16 |
		 HWHEEL_VERSION_MINOR << 8 | HWHEEL_VERSION_PATCH);
	snprintf(text, sizeof text, "%d.%d.%d", HWHEEL_VERSION_MAJOR,
		 HWHEEL_VERSION_MINOR, HWHEEL_VERSION_PATCH);
	CHECK(strcmp(text, hwheel_version_string()) == 0);
}

static const struct ktap_test tests[] = {
	TEST(version_matches_the_header),
};
KTAP_MAIN(tests)
