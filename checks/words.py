"""Names and prose use standard terms: no banned phrase, no vague type or function name.

If a review finds further dialect, add the phrase to the list. `python3 checks words` prints each hit with its reason.
"""

import re

import repository

# Nouns for persons. A relative clause with "who" may follow these nouns.
PERSONS = (
    "users people developers persons readers players operators engineers researchers those anyone someone everyone "
    "person user operator reader developer"
).split()

PHRASES = {
    "name the component, not a person": r"\b(whoever|whomever|whosoever|nobody|somebody|anybody|everybody)\b",
    "a relative clause for a thing": r"\b(?=whom?\b)" + "".join(rf"(?<!\b{p} )" for p in PERSONS) + r"whom?",
    "a noun, not a 'what' clause": r"\bwhat (is|was|are|were|has|have|had|goes|comes|came|did|does|can|cannot|may|must|will|would)\b",
    "say whose": r"\bof (ours|theirs|yours)\b",
    "a number or 'N'": r"\b(so many(-th)?|as many as|so much as)\b",
    "dialect": r"\b((is |are )?heard of|(is |are )?told of|looked at anew|anew|not looked at|wished for|is wished|wishes|no more than what"
    r"|says so|said so|sent again|for ever|by itself alone|on the way|somewhere else|may not come in|come in with|of whom|to whom"
    r"|for whom|by whom)\b",
    "the standard term": r"\b(rungs?|ladders?|top-ups?|topped up|skip-?back|further renditions?|held back|mended?|mending|(?<!bench )(?<!bench-)(?<!`)hand-?offs?"
    r"|patched pictures?)\b",
}
NAMES = {
    "a type name that names the thing": r"^\s*(?:pub(?:\([a-z: ]+\))? )?(?:struct|enum|trait|type) (Place|Way|Shown|Seen|Part|Waiting|Told"
    r"|Found|What|Said|Asked|Wish|Wishes|Wanted|Heard|Given|Taken|Known|Ends|Other|Both|Next|Over|Begins|Beginning|Woken|Skipped"
    r"|Served|Joined|Written|Made|Done|Left|Gone|Come)\b",
    "a function name of the field": r"\bfn (tell|say|ask|hear|heard|heard_from|meet|meets|look_again|begin|told|said|asked|wish|wished|wishes)\b",
    "a name without a clause": r"\bfn \w*(?:^|_)(who|whoever|nobody|somebody|what_is|what_was|of_ours)(?:_|\b)\w*",
}
# Most lines contain no banned phrase, so one search with all patterns comes first.
ANY = re.compile("|".join([*PHRASES.values(), *NAMES.values()]), re.I)
TEXT = (".rs", ".md", ".ts", ".py", ".html", ".css", ".toml", ".txt", ".sh", ".c", ".h", ".json", ".yaml")
# Files that are generated, files that quote other projects, and this list itself. `usage.rs` contains old names, which
# the program refuses with a hint.
EXEMPT = ("checks/words.py", "crates/terminal/src/usage.rs", "CHANGELOG.md", "package-lock.json", "/dist/", "vectors/")


def check():
    for path in repository.tracked():
        name = str(path)
        if not (name.endswith(TEXT) or name in ("dev", ".ci/run", "fuzz/run")) or any(word in name for word in EXEMPT):
            continue
        for number, line in enumerate(repository.text(path).splitlines(), 1):
            if not ANY.search(line):
                continue
            for reason, pattern in PHRASES.items():
                for hit in re.finditer(pattern, line, re.I):
                    yield f"{name}:{number}: '{hit[0].strip()}': {reason}"
            if name.endswith(".rs"):
                for reason, pattern in NAMES.items():
                    for hit in re.finditer(pattern, line):
                        # OpenXR uses this verb: xrBeginSession, xrBeginFrame.
                        if name.startswith("crates/xr/") and hit[0] == "fn begin":
                            continue
                        yield f"{name}:{number}: '{hit[0].strip()}': {reason}"
