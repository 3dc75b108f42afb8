/* The histograms as files. */
#ifndef REPORT_H
#define REPORT_H

#include "histogram.h"
#include "options.h"

/* The timers of the wheel; or of the raw timerfd, which has no drained ones. */
struct result {
	const char *name;
	uint64_t armed, fired, drained, early;
	struct summary summary;
	struct reading all;
};

/* `raw` may be NULL. They end the program if the file cannot be written. */
void report_json(const struct options *o, const struct result *wheel,
		 const struct result *raw);
void report_svg(const struct options *o, const struct result *wheel,
		const struct result *raw);

#endif
