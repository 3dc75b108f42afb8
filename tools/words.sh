#!/bin/sh
# Finds words that a reader has to read twice, in all of the source. A rule is a regular
# expression, then what to write instead. An exception is one for the name of a file, then
# one for the line.
set -eu
files=$(git ls-files 2>/dev/null || find . -type f ! -path './build/*' ! -path '*/target/*' \
	! -path '*/node_modules/*' | sed 's|^\./||')

# The figures compare hwheel with the wheel in the column "beside".
exceptions='
^docs/PERFORMANCE\.md:.*[Bb]eside
^benches/tables\.py:.*[Bb]eside
^tools/words\.sh:
'

found() { # found <rule> <what to write instead>
	printf '%s\n' "$files" | grep -vE '^verify/(fuzz|figures)/|\.svg$' | tr '\n' '\0' |
		xargs -0 grep -HnIiE -- "$1" | grep -vE "$(echo "$exceptions" | grep .)" |
		sed "s|\$|    <- $2|"
}

{
	found '\<beside\>' 'concurrently with, next to, compared with'
	found '\<(held|holds?|holding) up\>' 'delays, blocks'
	found '\<(is|are|was|were|be) told\>' 'learns, gets'
	found '\<for ever\>' 'without end, always'
	found '\<so many\>' 'that number of'
	found '\<the begin\>' 'the beginning'
	found '\<in words of its own\>' 'with its own text'
	found '(//+!?|/?\*+|#|--) *the same, if' 'say what is the same'
} | { ! grep .; }
