//! Spawns processes that must die with this one.
//!
//! The kernel sends the parent-death signal when the *thread* that forked ends, and tests run on threads that end. So
//! one thread that never ends does all the forking.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Order = (Command, Sender<io::Result<Child>>);

/// Spawns `command` as a child of a thread that lives as long as the process.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            // The sender is in a static, so this loop has no end.
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, spawned) = channel();
    let gone = || io::Error::other("the thread that spawns servers has ended");
    orders.send((command, answer)).map_err(|_| gone())?;
    spawned.recv().map_err(|_| gone())?
}
