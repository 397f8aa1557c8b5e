# The conformance suite's build ends where its source has no large files (git-lfs): pictures that only tests with a
# person need. Here that is a warning; everything else is said as it is.
# Each project of the suite includes this.
include_guard(GLOBAL)
function(message)
  if("${ARGV0}" STREQUAL "FATAL_ERROR" AND "${ARGV}" MATCHES "git-lfs pointer file")
    _message(WARNING "without the large files: tests with a person can't be run")
  elseif("${ARGV}" STREQUAL "")
    _message("")
  else()
    _message(${ARGV})
  endif()
endfunction()
