#include "report.h"

#include <errno.h>
#include <hwheel.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The plot's frame, in pixels. */
#define LEFT 70
#define TOP 50
#define WIDTH 700
#define HEIGHT 320
/* Buckets are drawn in groups of this many: 8 for each power of two. */
#define GROUP 4

/* Both axes are logarithmic: powers of ten from `first` to `last`. */
struct axis {
	int first, last;
};

static double x_of(const struct axis *x, uint64_t ns)
{
	double place = log10(ns ? ns : 1) - x->first;

	return LEFT + WIDTH * fmax(place, 0) / (x->last - x->first);
}

/* The frame begins at half a timer, so that one can be seen. */
static double y_of(const struct axis *y, uint64_t count)
{
	double place = log10(count ? count : 0.5) - log10(0.5);

	return TOP + HEIGHT * (1 - place / (y->last - log10(0.5)));
}

static uint64_t in_group(const struct result *r, unsigned int group)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < GROUP; i++)
		sum += r->all.bucket[group * GROUP + i];
	return sum;
}

static void stretch(const struct result *r, struct axis *x, struct axis *y)
{
	const struct summary *s = &r->summary;
	int last = (int)ceil(log10(s->max + 1.0));

	if (s->min && log10(s->min) < x->first)
		x->first = (int)floor(log10(s->min));
	if (last > x->last)
		x->last = last;
	for (unsigned int group = 0; group < BUCKETS / GROUP; group++)
		while (in_group(r, group) > pow(10, y->last))
			y->last++;
}

static void put_grid(FILE *out, const struct axis *x, const struct axis *y)
{
	static const char *const units[] = { "ns", "\u00b5s", "ms", "s" };

	for (int i = x->first; i <= x->last; i++) {
		double at = LEFT + (double)WIDTH * (i - x->first) /
			    (x->last - x->first);
		int unit = i / 3 < 3 ? i / 3 : 3;

		fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>"
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">"
			"%.0f %s</text>\n", at, TOP, TOP + HEIGHT, at,
			TOP + HEIGHT + 18, pow(10, i - 3 * unit), units[unit]);
	}
	for (int i = 0; i <= y->last; i++) {
		double at = y_of(y, (uint64_t)pow(10, i));

		fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f"
			"</text>\n", LEFT, at, LEFT + WIDTH, LEFT - 8, at + 4,
			pow(10, i));
	}
}

/* A step for each group, closed at the foot. */
static void put_result(FILE *out, const struct result *r, int row,
		       const struct axis *x, const struct axis *y)
{
	const struct summary *s = &r->summary;
	double foot = y_of(y, 0);

	fprintf(out, "<path class=\"%s\" d=\"", r->name);
	for (unsigned int group = 0; group < BUCKETS / GROUP; group++) {
		uint64_t count = in_group(r, group);

		if (!count)
			continue;
		fprintf(out, "M%.1f %.1fV%.1fH%.1fV%.1fz",
			x_of(x, bucket_low(group * GROUP)), foot,
			y_of(y, count),
			x_of(x, bucket_low((group + 1) * GROUP) - 1), foot);
	}
	fprintf(out, "\"/>\n<path class=\"%s\" d=\"M%d %dh14v10h-14z\"/>"
		"<text x=\"%d\" y=\"%d\">%s: %" PRIu64 " fired, lateness in "
		"\u00b5s: min %.1f, average %.1f, p99 %.1f, max %.1f</text>\n",
		r->name, LEFT, TOP + HEIGHT + 32 + 18 * row, LEFT + 22,
		TOP + HEIGHT + 41 + 18 * row, r->name, r->fired, s->min / 1e3,
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
		LEFT + WIDTH + 30, TOP + HEIGHT + 75);
	fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"15\">hwheel %s: "
		"%" PRIu64 " x %" PRIu64 " timers a second, tick %g \u00b5s, "
		"clock %s, drive %s</text>\n", LEFT, TOP - 20,
		hwheel_version_string(), o->threads, o->rate, o->tick / 1e3,
		o->clock->name, o->descriptor ? "descriptor" : "thread");
	put_grid(out, &x, &y);
	put_result(out, wheel, 0, &x, &y);
	if (raw)
		put_result(out, raw, 1, &x, &y);
	fprintf(out, "</svg>\n");
	if (ferror(out) | fclose(out))
		fail(1, "--svg: cannot write: %s", strerror(errno));
}
