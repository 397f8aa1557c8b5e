"""The command line."""

import argparse
import pathlib
import sys

from . import document, page, results

DESCRIPTION = """\
Draw what benches and studies measured: one HTML page with tables, plots and a verdict for each figure of the papers.

The reporter measures nothing. `openuvr bench NAME` and `openuvr lab NAME` write result files (JSON, with CSV for long
data) into folders; name these folders here. Results of several folders are drawn together, such as results of kernels
with and without the RT patch."""

EPILOG = """\
verdicts:
  reproduced, not reproduced   the 95 % confidence interval of repeated runs decides
  inconclusive                 the interval contains the bound; or there are too few runs, a quick run, a busy machine,
                               or other conditions than the paper's
  not measured                 no result file has the figure (the page names the command that measures it)
  not testable here            the machine lacks a prerequisite: a radio, a graphics card, people

examples:
  openuvr bench ablation --out results; openuvr lab wifi --paper --out wifi
  python3 studies/report results wifi --out report.html
  python3 studies/report results --plots pictures     also write each plot as SVG and PNG"""


def arguments(words):
    parser = argparse.ArgumentParser(
        prog="report", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "places",
        nargs="+",
        type=pathlib.Path,
        metavar="FOLDER",
        help="result files, or folders with result files (subfolders are read, too)",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        metavar="FILE",
        help="write the page to this file (default: report.html in the first folder)",
    )
    parser.add_argument(
        "--plots", type=pathlib.Path, metavar="FOLDER", help="write each plot as SVG and PNG into this folder"
    )
    parser.add_argument(
        "--verdicts",
        metavar="FILE",
        help="write only the verdicts, as Markdown, to this file (- for standard output)",
    )
    return parser.parse_args(words)


def write_verdicts(places, out):
    """Writes the verdicts as Markdown to the file `out`, or to standard output if `out` is `-`."""
    text = document.markdown(results.read(places, may_be_empty=True))
    if out == "-":
        sys.stdout.buffer.write(text.encode())
    else:
        pathlib.Path(out).write_text(text, encoding="utf-8")
        print(f"the verdicts are in {out}")


def main(words):
    """Exit code: 0, 1 with one line for files that cannot be read or written, 2 for a wrong command line."""
    chosen = arguments(words)
    try:
        if chosen.verdicts:
            write_verdicts(chosen.places, chosen.verdicts)
            return 0
        first = chosen.places[0]
        out = chosen.out or (first if first.is_dir() else first.parent) / "report.html"
        page.write(results.read(chosen.places), out, chosen.plots)
    except results.UnreadableError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"report: can't write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"the report is {out}")
    return 0
