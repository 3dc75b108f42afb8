/* Shapes of wheels: hashed and hierarchical, the default and some that wrap soon. */
#ifndef SHAPES_H
#define SHAPES_H

#include "ktap.h"

struct shape {
	uint64_t tick;
	uint32_t levels, slots;
};

static const struct shape shapes[] = {
	{ 1000000, 4, 256 }, { 1000000, 1, 256 }, { 1000000, 2, 4 },
	{ 1000, 1, 4 }, { 1000, 4, 2 }, { 7001, 3, 8 }, { 1000, 1, 2 },
};

/* The tick of the shape that is tested. */
static uint64_t tick;

/* The first tick at or after a time. */
static inline uint64_t up(uint64_t ns)
{
	return ns / tick * tick + (ns % tick ? tick : 0);
}

#endif
