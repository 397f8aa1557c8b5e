//! `libopenuvr`: the OpenUVR API (paper, Table I) for applications in C.
