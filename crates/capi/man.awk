# Writes the manual pages of section 3. openuvr(3) contains the comment at the top of the header; the page of each
# function contains the function's comment.
function text(line) {
    gsub(/\\/, "\\\\", line)
    if (line ~ /^[.']/)
        line = "\\&" line
    # `code`: in bold.
    while (match(line, /`[^`]*`/))
        line = substr(line, 1, RSTART - 1) "\\fB" substr(line, RSTART + 1, RLENGTH - 2) "\\fR" \
            substr(line, RSTART + RLENGTH)
    return line
}
function head(file, name, what) {
    printf ".TH %s 3 \"\" \"OpenUVR %s\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, name, what > file
    printf ".SH SYNOPSIS\n.nf\n#include <openuvr.h>\n" > file
}
# The first sentence of a comment.
function first(body) {
    match(body, /[.:;]( |\n|$)/)
    body = RSTART ? substr(body, 1, RSTART - 1) : body
    gsub(/\n/, " ", body)
    return body
}
NR == 1 {
    overview = folder "/openuvr.3"
    head(overview, "openuvr", "streams the pictures of an application to a thin client")
    printf "\ncc program.c $(pkg-config --cflags --libs openuvr)\n.fi\n.SH DESCRIPTION\n" > overview
}
# The comment at the top of the header.
/^\/\*$/ && !seen { inside = 1; next }
inside && /^ \*\/$/ { inside = 0; seen = 1; next }
inside {
    line = $0
    sub(/^ \* ?/, "", line)
    if (line ~ /^- /)
        printf ".IP \\(bu 2\n%s\n", text(substr(line, 3)) > overview
    else if (line == "")
        print ".PP" > overview
    else {
        sub(/^ +/, "", line)
        print text(line) > overview
    }
    next
}
/^\/\/ / { line = $0; sub(/^\/\/ ?/, "", line); comment = comment (comment == "" ? "" : "\n") line; next }
/^\/\/$/ { comment = comment "\n"; next }
# A function declaration, on one or more lines.
/^[a-z].*openuvr_[a-z_]*\(/ && !/^typedef|^struct openuvr_[a-z_]* \{/ { declaration = "" ; begun = 1 }
begun {
    declaration = declaration $0 "\n"
    if ($0 ~ /;$/) {
        begun = 0
        match(declaration, /openuvr_[a-z_]*\(/)
        name = substr(declaration, RSTART, RLENGTH - 1)
        page = folder "/" name ".3"
        head(page, name, text(first(comment)))
        printf "\n%s.fi\n.SH DESCRIPTION\n", text(declaration) > page
        count = split(comment, lines, "\n")
        for (i = 1; i <= count; i++)
            print lines[i] == "" ? ".PP" : text(lines[i]) > page
        print ".SH SEE ALSO\nopenuvr(3)" > page
        close(page)
        names = names (names == "" ? "" : ",\n") name "(3)"
        comment = ""
    }
    next
}
{ comment = "" }
END { printf ".SH SEE ALSO\n%s\n", names > overview }
