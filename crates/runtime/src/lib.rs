//! The threads of a host and a client.
