//! `libopenuvr_hook.so`: loaded into a game that nobody can change, it takes each picture where the
//! game finishes it, and streams it from inside the game's process.
