#include "latency.h"

#include <errno.h>
#include <hwheel.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static const char *drive(const struct options *o)
{
	return o->descriptor ? "descriptor" : "thread";
}

static void finish(FILE *out, const char *option)
{
	if (ferror(out) | fclose(out))
		fail(1, "%s: cannot write: %s", option, strerror(errno));
}

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
		o->delay_max, o->tick, o->clock->name, drive(o));
	put_result(out, wheel);
	if (raw)
		put_result(out, raw);
	fprintf(out, "\n}\n");
	finish(out, "--json");
}

/* The plot's frame, in pixels. */
#define LEFT 90
#define TOP 50
#define WIDTH 700
#define HEIGHT 320
/* Buckets are drawn in groups of this many: 8 for each power of two. */
#define GROUP 4

/* Both axes are logarithmic: powers of ten from `first` to `last`. */
struct axis {
	int first, last;
};

/* The buckets of a group, which have the same width. */
struct bar {
	uint64_t low, high;	/* nanoseconds; `high` is not in it */
	uint64_t count;
	double density;		/* timers per microsecond */
};

static double x_of(const struct axis *x, double ns)
{
	double place = log10(fmax(ns, 1)) - x->first;

	return LEFT + WIDTH * fmax(place, 0) / (x->last - x->first);
}

static double y_of(const struct axis *y, double density)
{
	double place = log10(density) - y->first;

	return TOP + HEIGHT * (1 - place / (y->last - y->first));
}

/* The next bar from `*group` on that is not empty; false without one. */
static bool next_bar(const struct result *r, unsigned int *group, struct bar *bar)
{
	for (; *group < BUCKETS / GROUP; ++*group) {
		unsigned int first = *group * GROUP;

		bar->count = 0;
		for (unsigned int i = 0; i < GROUP; i++)
			bar->count += r->all.bucket[first + i];
		if (!bar->count)
			continue;
		bar->low = bucket_low(first);
		bar->high = bucket_low(first + GROUP);
		bar->density = 1e3 * bar->count / (bar->high - bar->low);
		++*group;
		return true;
	}
	return false;
}

static void stretch(const struct result *r, struct axis *x, struct axis *y)
{
	const struct summary *s = &r->summary;
	int last = (int)ceil(log10(s->max + 1.0));
	unsigned int group = 0;
	struct bar bar;

	if (s->min && log10(s->min) < x->first)
		x->first = (int)floor(log10(s->min));
	if (last > x->last)
		x->last = last;
	while (next_bar(r, &group, &bar)) {
		while (bar.density > pow(10, y->last))
			y->last++;
		/* Below the lowest bar, so that it can be seen. */
		while (bar.density <= pow(10, y->first))
			y->first--;
	}
}

static void put_grid(FILE *out, const struct axis *x, const struct axis *y)
{
	static const char *const units[] = { "ns", "\u00b5s", "ms", "s" };

	for (int i = x->first; i <= x->last; i++) {
		double at = x_of(x, pow(10, i));
		int unit = i / 3 < 3 ? i / 3 : 3;

		fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>"
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">"
			"%.0f %s</text>\n", at, TOP, TOP + HEIGHT, at,
			TOP + HEIGHT + 18, pow(10, i - 3 * unit), units[unit]);
	}
	for (int i = y->first; i <= y->last; i++) {
		double at = y_of(y, pow(10, i));

		fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f"
			"</text>\n", LEFT, at, LEFT + WIDTH, LEFT - 8, at + 4,
			i < 0 ? -i : 0, pow(10, i));
	}
	fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">lateness"
		"</text>\n", LEFT + WIDTH / 2, TOP + HEIGHT + 36);
	fprintf(out, "<text transform=\"translate(16 %d) rotate(-90)\" "
		"text-anchor=\"middle\">timers per \u00b5s of lateness</text>\n",
		TOP + HEIGHT / 2);
}

/* A bar for each group, closed at the foot. Its height is a density: that does not
 * depend on the width, which doubles with each power of two. */
static void put_bars(FILE *out, const struct result *r, int row,
		     const struct axis *x, const struct axis *y)
{
	const struct summary *s = &r->summary;
	int foot = TOP + HEIGHT;
	unsigned int group = 0;
	struct bar bar;

	fprintf(out, "<path class=\"%s\" d=\"", r->name);
	while (next_bar(r, &group, &bar))
		fprintf(out, "M%.1f %dV%.1fH%.1fV%dz", x_of(x, bar.low), foot,
			y_of(y, bar.density), x_of(x, bar.high - 1), foot);
	fprintf(out, "\"/>\n<path class=\"%s\" d=\"M%d %dh14v10h-14z\"/>"
		"<text x=\"%d\" y=\"%d\">%s: %" PRIu64 " fired, lateness in "
		"\u00b5s: min %.1f, average %.1f, p99 %.1f, max %.1f</text>\n",
		r->name, LEFT, TOP + HEIGHT + 52 + 18 * row, LEFT + 22,
		TOP + HEIGHT + 61 + 18 * row, r->name, r->fired, s->min / 1e3,
		s->average / 1e3, s->p99 / 1e3, s->max / 1e3);
}

void report_svg(const struct options *o, const struct result *wheel,
		const struct result *raw)
{
	struct axis x = { 3, 4 }, y = { 0, 1 };
	FILE *out = o->svg;

	stretch(wheel, &x, &y);
	if (raw)
		stretch(raw, &x, &y);
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
		"font-size=\"12\">\n<title>Lateness of timers</title>\n"
		"<style>.grid{stroke:#ddd;fill:none}"
		".wheel{fill:#0072b2;fill-opacity:.6}"
		".raw{fill:#d55e00;fill-opacity:.6}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		LEFT + WIDTH + 30, TOP + HEIGHT + 95);
	fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"15\">hwheel %s: "
		"%" PRIu64 " x %" PRIu64 " timers a second, tick %g \u00b5s, "
		"clock %s, drive %s</text>\n", LEFT, TOP - 20,
		hwheel_version_string(), o->threads, o->rate, o->tick / 1e3,
		o->clock->name, drive(o));
	put_grid(out, &x, &y);
	put_bars(out, wheel, 0, &x, &y);
	if (raw)
		put_bars(out, raw, 1, &x, &y);
	fprintf(out, "</svg>\n");
	finish(out, "--svg");
}
