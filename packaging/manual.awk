# Makes the manual page sarabande.toml(5) from `sarabande check --reference`: headings, paragraphs, code, lists and tables.

function text(line) {
    gsub(/\\\|/, "|", line)
    gsub(/\\/, "\\e", line)
    # A link is its text.
    while (match(line, /\[[^]\[]+\]\([^)]+\)/)) {
        link = substr(line, RSTART + 1, index(substr(line, RSTART), "](") - 2)
        line = substr(line, 1, RSTART - 1) link substr(line, RSTART + RLENGTH)
    }
    gsub(/\*\*/, "", line)
    gsub(/`/, "", line)
    gsub(/-/, "\\-", line)
    # A line of text that starts with a dot or an apostrophe would be a request.
    return line ~ /^[.']/ ? "\\&" line : line
}

BEGIN {
    print ".TH SARABANDE.TOML 5 \"\" \"sarabande " version "\""
    print ".\\\" Lines may break everywhere between words, and words stay whole."
    print ".nh\n.ad l\n.SH NAME\nsarabande.toml \\- configuration file of sarabande\n.SH DESCRIPTION"
}

/^```/ { is_code = !is_code; print is_code ? ".PP\n.RS 4\n.nf" : ".fi\n.RE"; next }
is_code { print text($0); next }
/^# / || /^<!--/ || /^\| (key|---) \|/ || /^\| --- / { next }
/^## / { print ".SH \"" text(substr($0, 4)) "\""; next }
/^$/ { print ".PP"; next }
/^- / { print ".IP \\(bu 2\n" text(substr($0, 3)); next }
/^\| / {
    # A bar inside a cell has a backslash before it.
    row = $0
    gsub(/\\\|/, "\001", row)
    split(row, cells, / *\| */)
    for (number in cells) gsub(/\001/, "|", cells[number])
    print ".TP\n\\fB" text(cells[2]) "\\fR\n" text(cells[5])
    print ".br\nValue: " text(cells[3]) (cells[4] == "" ? ". Required." : ". Default: " text(cells[4]) ".")
    next
}
{ print text($0) }

END { print ".SH \"SEE ALSO\"\n.BR sarabande (1),\n.BR sarabande\\-check (1)" }
