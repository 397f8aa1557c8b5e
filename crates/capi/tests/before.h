/*
 * libopenuvr: streams what an application draws to a thin client (a "MUD", mobile user device), and
 * brings back what the person there does. The functions and enums of the paper "OpenUVR: an
 * Open-Source System Framework for Untethered Virtual Reality Applications" (Table I and Fig. 9), and
 * what else a library needs. Examples: crates/capi/examples in the sources.
 *
 * Rules that hold everywhere:
 *
 * - What is allocated here is freed here: a context by openuvr_close or openuvr_close_mud. Nothing
 *   else is handed over. Texts and structures that are given are copied or filled before the call
 *   returns; where memory is only lent, the text says until when.
 * - Functions that return int return 0 or more if they did what was asked, else an OPENUVR_ERROR
 *   below zero, and then changed nothing unless the text says so. openuvr_last_error has the reason in
 *   words.
 * - Every structure begins with its size: set it to sizeof *it. A program that was built with an
 *   older header works with a newer library.
 * - Enums are given as uint32_t. A number that is none of them is an error, and so is NULL where the
 *   text does not allow it.
 * - Functions may be called from any thread, and from several at a time, unless the text says
 *   otherwise.
 * - Callbacks are called on threads of the library, as their text says. These have all signals blocked but
 *   those that tell a thread of a fault of its own (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS,
 *   SIGABRT). A callback returns: one that is left by an exception or by pthread_exit ends the process. In a
 *   callback openuvr_close and openuvr_close_mud do nothing, and the variable stays.
 * - The library starts no process, ends none, prints nothing, handles no signal, and keeps nothing
 *   outside its contexts. (A mistake in it, which would return OPENUVR_ERROR_PANIC, writes a line to
 *   standard error. With OPENUVR_LOG=3 in the environment, lines of the log up to this level go there,
 *   too: for a look at a program that does not show its log.)
 * - After fork(), the stream belongs to the parent: in the child every function returns
 *   OPENUVR_ERROR_FORKED, and closing a context there does nothing.
 */
