#include "report.h"

#include <errno.h>
#include <hwheel.h>
#include <inttypes.h>
#include <string.h>

static void put_result(FILE *out, const struct result *r)
{
	const struct summary *s = &r->summary;
	const char *comma = "";

	fprintf(out, ",\n  \"%s\": {\n"
		"    \"armed\": %" PRIu64 ", \"fired\": %" PRIu64
		", \"drained\": %" PRIu64 ", \"early\": %" PRIu64 ",\n",
		r->name, r->armed, r->fired, r->drained, r->early);
	fprintf(out, "    \"min_ns\": %" PRIu64 ", \"average_ns\": %" PRIu64
		", \"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64
		", \"p999_ns\": %" PRIu64 ", \"max_ns\": %" PRIu64 ",\n",
		s->min, s->average, s->p50, s->p99, s->p999, s->max);
	fprintf(out, "    \"buckets\": [");
	for (unsigned int i = 0; i < BUCKETS; i++) {
		if (!r->all.bucket[i])
			continue;
		fprintf(out, "%s\n      { \"from_ns\": %" PRIu64
			", \"to_ns\": %" PRIu64 ", \"count\": %" PRIu64 " }",
			comma, bucket_low(i), bucket_low(i + 1) - 1,
			r->all.bucket[i]);
		comma = ",";
	}
	fprintf(out, "\n    ]\n  }");
}

void report_json(const struct options *o, const struct result *wheel,
		 const struct result *raw)
{
	FILE *out = o->json;

	fprintf(out, "{\n  \"version\": \"%s\",\n  \"options\": {\n"
		"    \"threads\": %" PRIu64 ", \"rate\": %" PRIu64
		", \"delay_min_ns\": %" PRIu64 ", \"delay_max_ns\": %" PRIu64
		",\n    \"tick_ns\": %" PRIu64
		", \"clock\": \"%s\", \"drive\": \"%s\"\n  }",
		hwheel_version_string(), o->threads, o->rate, o->delay_min,
		o->delay_max, o->tick, o->clock->name,
		o->descriptor ? "descriptor" : "thread");
	put_result(out, wheel);
	if (raw)
		put_result(out, raw);
	fprintf(out, "\n}\n");
	if (ferror(out) | fclose(out))
		fail(1, "--json: cannot write: %s", strerror(errno));
}
