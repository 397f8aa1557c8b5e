"""The claims of the papers, in their order. A further paper needs a file and a line here."""

from . import gaminganywhere, openuvr, searis, unity

PAPERS = (
    ("OpenUVR", openuvr.CLAIMS),
    ("GamingAnywhere", gaminganywhere.CLAIMS),
    ("Unity Render Streaming over Wi-Fi", unity.CLAIMS),
    ("SEARIS: application-stage latencies", searis.CLAIMS),
)
