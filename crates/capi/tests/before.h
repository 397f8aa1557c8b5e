/*
 * libopenuvr: streams an application's pictures to a thin client (a "MUD", mobile user device), and
 * returns that client's input to the application. It has the functions and enums of the paper "OpenUVR:
 * an Open-Source System Framework for Untethered Virtual Reality Applications" (Table I and Fig. 9), and
 * the other functions that a library needs. Examples: crates/capi/examples in the sources.
 *
 * General rules:
 *
 * - The library frees its own allocations: openuvr_close or openuvr_close_mud frees a context. The caller need not free
 *   anything else. Strings and structures that are passed in are copied, and those that are passed for a result are
 *   filled, before the call returns. If a function lends memory, its description states how long the memory is valid.
 * - Functions that return int return 0 or more on success, else a negative OPENUVR_ERROR. A failed call
 *   has no effect unless its description states one. openuvr_last_error or openuvr_mud_last_error returns
 *   the reason as text.
 * - Every structure begins with its size: set it to sizeof the structure. A program that was built with
 *   an older header works with a newer library.
 * - Enums are passed as uint32_t. A number outside the enum is an error, and so is NULL unless the
 *   description allows it.
 * - Functions may be called from any thread, and from several threads at the same time, unless the
 *   description restricts it.
 * - Callbacks are called on threads of the library, unless their descriptions also name the caller's thread. The
 *   library's threads block all signals except those that report a fault of the thread itself (SIGSEGV, SIGBUS, SIGFPE,
 *   SIGILL, SIGTRAP, SIGSYS, SIGABRT). A callback must return: leaving it by an exception or by pthread_exit ends the
 *   process. In a callback, openuvr_close and openuvr_close_mud do nothing, and leave the variable that holds the
 *   context unchanged.
 * - The library starts no process, ends none, prints nothing, handles no signal, and keeps no state in the
 *   process outside its contexts. (Exceptions: a bug in the library, for which a call returns
 *   OPENUVR_ERROR_PANIC, writes a line to standard error. With OPENUVR_LOG=3 in the environment, log lines
 *   up to this level are written there, too, for programs that do not show the log.)
 * - After fork(), the stream belongs to the parent: in the child, every function with a context of the parent returns
 *   OPENUVR_ERROR_FORKED, and closing such a context only sets the variable that holds it to NULL.
 */
