//! The front door of both programs: who may connect, how many connections there may be, who may ask for what, and what
//! systemd is told. Prometheus' web configuration file says the most of it.
//!
//! A program makes a [`Door`] for its router and a [`Server`] for its listeners; all limits are here, once.

mod access;
mod address;
mod auth;
mod built;
mod config;
mod connection;
mod door;
mod duration;
mod guesses;
mod listen;
mod masked;
pub mod notify;
mod origin;
mod peers;
mod refused;
mod server;

pub use access::{Access, Asker, Grant, Needs, NeedsOf, Proxy, Scope, Trusted, Who};
pub use address::{Address, Listen};
pub use built::{BUILT, VERSION};
pub use config::{Rules, WebConfig, check};
pub use connection::{Limits, Local};
pub use door::Door;
pub use duration::duration;
pub use listen::{Listener, bind, inherited, raise_descriptor_limit};
pub use masked::{masked, without_query};
pub use origin::Hosts;
pub use peers::PeerKey;
pub use refused::{Reason, Refusals};
pub use server::Server;
