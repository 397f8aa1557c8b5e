"""The claims of the papers, in their order; one more paper is one more file and one more line."""

from . import gaminganywhere, openuvr, searis, unity

PAPERS = (
    ("OpenUVR", openuvr.CLAIMS),
    ("GamingAnywhere", gaminganywhere.CLAIMS),
    ("Unity Render Streaming over Wi-Fi", unity.CLAIMS),
    ("SEARIS: application-stage latencies", searis.CLAIMS),
)
