//! Blocks a synchronous caller until the driver answers.
//!
//! The driver's answers come through channels, so the caller's own thread can park until one arrives. Unlike the
//! runtime's `block_on`, this cannot panic if the caller is inside another runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the future's output. `None` if the deadline passed first.
pub(super) fn wait<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
                return Some(answer);
            }
            // If the waker was called since the poll, this returns at once.
            thread::park_timeout(deadline.checked_duration_since(Instant::now())?);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wait_returns_the_answer_of_another_thread_and_stops_at_the_deadline() {
        let soon = || Instant::now() + Duration::from_secs(20);
        let (send, receive) = tokio::sync::oneshot::channel();
        let sender = thread::spawn(move || send.send(7));
        assert_eq!(wait(receive, soon()), Some(Ok(7)));
        assert_eq!(sender.join().expect("ends"), Ok(()));
        assert_eq!(wait(std::future::pending::<()>(), Instant::now()), None);
    }
}
