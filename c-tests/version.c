/* The header's version is the library's. */
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
