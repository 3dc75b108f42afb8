#!/usr/bin/awk -f
# Whether a header looks like the kernel's code: lines of at most 80 columns, tabs
# of eight for indentation, no blanks at the end of a line, one blank line between
# declarations, a comment before each function, and at most 38 functions.
function wrong(what)
{
	print FILENAME ":" FNR ": " what
	failed = 1
}

{
	columns = 0
	for (i = 1; i <= length($0); i++)
		columns = substr($0, i, 1) == "\t" ? columns + 8 - columns % 8 : columns + 1
	if (columns > 80)
		wrong(columns " columns")
	in_comment = in_comment || /^\/\*/
	if (/[ \t]$/)
		wrong("a blank at the end of the line")
	if (!in_comment && /^(\t* {8}| +[^ *])/)
		wrong("indented with blanks")
	if (/^$/ && last == "" && FNR > 1)
		wrong("two empty lines")
	if (last ~ /;$/ && last !~ /^[\t}]/ && !/^$/ && !in_comment)
		wrong("no empty line after a declaration")
	if (!in_comment && /^[a-z].*[ *]hwheel_[a-z_]+\(/ && !/^typedef/) {
		functions++
		if (last != " */" && last != "HWHEEL_MUST_CHECK")
			wrong("a function without a comment")
	}
	if (/\*\/$/)
		in_comment = 0
	last = $0
}

END {
	if (functions < 1 || functions > 38)
		wrong(functions + 0 " functions, which are none or more than 38")
	exit failed
}
