//! Hosts whose clocks differ share a state on a server: the server's clock decides.

use std::sync::Arc;
use std::time::Duration;

use duolog::approvals::Answer;
use duolog::chats::{ChatKey, NewChatMessage};
use duolog::errors::Busy;
use duolog::limits::RunLimits;
use duolog::runs::{Admission, Expiry, NewGate, NewRun};
use duolog::{ApprovalKind, ApprovalStatus, ChatRole, Clock, Error, RunStatus, Store, SystemClock, Timestamp};
use duolog_testkit::engines::Place;

use super::Apart;
use super::runs::{claimed, new};

/// The clock of a machine that is wrong by this number of seconds.
struct Wrong(i64);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros() + self.0 * 1_000_000)
    }

    fn is_machine(&self) -> bool {
        true
    }
}

/// Three hosts, each with its own home: one clock is behind, one is right, and one is ahead.
fn hosts(place: &Place) -> [(Apart, Store); 3] {
    [-60, 0, 60].map(|seconds| {
        let apart = Apart::of(place);
        let mut options = apart.options();
        options.clock = Arc::new(Wrong(seconds));
        let half = Duration::from_secs(30);
        options.limits.runs = RunLimits { lease: half, queue_wait: half, ..RunLimits::default() };
        let store = Store::open(options).unwrap_or_else(|error| panic!("{error}: {error:?}"));
        (apart, store)
    })
}

/// The owner of a run keeps it, whatever the clocks of other hosts say.
#[test]
fn a_host_with_a_wrong_clock_takes_no_claimed_run() {
    let place = Place::postgres();
    let hosts = hosts(&place);
    for (number, (_, holder)) in hosts.iter().enumerate() {
        let (run, fence) = claimed(holder, &number.to_string(), "holder");
        for renewed in [false, true] {
            if renewed {
                holder.runs().open(&run).under(fence).renew(None).expect("renewed");
            }
            for (_, other) in &hosts {
                let refused = other.runs().open(&run).claim("thief", None).expect_err("it is held");
                assert!(matches!(&refused, Error::Busy(Busy::Claimed { by, .. }) if by == "holder"), "{refused}");
                assert!(other.runs().recover("thief").expect("looks").resumed.is_empty());
            }
        }
        let taken = holder.runs().open(&run).under(fence).release().expect("released");
        assert_eq!(taken.status, RunStatus::Running);
        // It has no owner, but the lease of a run that waits for one, so this is not a takeover.
        assert!(!holder.runs().open(&run).claim("next", None).expect("claimed").taken_over);
    }
}

/// A lease expires for all hosts at the same time, whichever host took it.
#[test]
fn a_lease_that_ended_is_taken_over_by_any_host() {
    let place = Place::postgres();
    let hosts = hosts(&place);
    let database = place.database().expect("a database");
    for (number, (_, holder)) in hosts.iter().enumerate() {
        for (_, other) in &hosts {
            let (run, _) = claimed(holder, &number.to_string(), "holder");
            let long_ago = "UPDATE workflow_runs SET lease_expires_at = to_char(clock_timestamp() AT TIME ZONE 'UTC' \
                            - interval '1 second', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') WHERE lease_owner = 'holder'";
            database.run_sql(long_ago).expect("as if time had passed");
            let claim = other.runs().open(&run).claim("next", None).expect("claimed");
            assert!(claim.taken_over);
            let end = duolog::runs::End::Succeeded;
            other.runs().open(&run).under(claim.fence).finish(&end, None).expect("finished");
        }
    }
}

/// A relative expiry counts from the server's clock, whatever the clock of the host says.
#[test]
fn a_gate_that_expires_after_a_time_expires_by_the_clock_of_the_server() {
    let place = Place::postgres();
    let hosts = hosts(&place);
    let half = Duration::from_secs(30);
    for (number, (_, host)) in hosts.iter().enumerate() {
        let (run, fence) = claimed(host, &number.to_string(), "holder");
        let before = host.now().expect("asked");
        let gate = NewGate { expires: Some(Expiry::After(half)), ..NewGate::new(ApprovalKind::Approve, "g", "?") };
        let gate = host.runs().open(&run).under(fence).pause_at(&gate).expect("paused").approval;
        let after = host.now().expect("asked");
        let later = |at: Timestamp| Some(Timestamp::from_micros(at.as_micros() + 30_000_000));
        assert!(later(before) <= gate.expires_at && gate.expires_at <= later(after), "{before} {gate:?} {after}");
        for (_, other) in &hosts {
            assert!(other.runs().expire().expect("looks").gates.is_empty());
        }
    }
}

/// All hosts of one server have the same current time.
#[test]
fn the_current_time_is_that_of_the_server() {
    let place = Place::postgres();
    let hosts = hosts(&place);
    let now = |at: usize| hosts[at].1.now().expect("asked");
    let seen = [now(2), now(0), now(1), now(2), now(0)];
    assert!(seen.is_sorted(), "{seen:?}");
}

/// A chat stays active by the server's clock.
#[test]
fn a_chat_stays_active_by_the_clock_of_the_server() {
    let place = Place::postgres();
    let hosts = [-60, 0, 60].map(|seconds| {
        let apart = Apart::of(&place);
        let mut options = apart.options();
        options.clock = Arc::new(Wrong(seconds));
        options.chat_idle = Duration::from_secs(30);
        (Store::open(options).expect("opens"), apart)
    });
    let key = ChatKey { platform: "p".into(), channel: "c".into(), thread: None, user: "u".into() };
    let message = |text: &str| NewChatMessage {
        role: ChatRole::User,
        content: text.to_owned(),
        platform_message_id: None,
        agent_session_id: None,
    };
    let power = duolog::Durability::Power;
    let first = hosts[0].0.chats().add(&key, &message("one"), power).expect("added").chat;
    for (store, _) in hosts.iter().chain(hosts.iter().rev()) {
        let added = store.chats().add(&key, &message("more"), power).expect("added");
        assert_eq!((added.chat, added.created), (first.clone(), false));
        assert_eq!(store.chats().find_active(&key).expect("looks").map(|chat| chat.id), Some(first.clone()));
    }
}

/// Waits in the queue and for answers expire by the same clock.
#[test]
fn nothing_expires_early_on_a_host_with_a_wrong_clock() {
    let place = Place::postgres();
    let hosts = hosts(&place);
    let until = Timestamp::from_micros(SystemClock.now().as_micros() + 30_000_000);
    for (number, (_, host)) in hosts.iter().enumerate() {
        let (run, fence) = claimed(host, &format!("gate-{number}"), "holder");
        let gate = NewGate { expires: Some(Expiry::At(until)), ..NewGate::new(ApprovalKind::Approve, "g", "?") };
        let gate = host.runs().open(&run).under(fence).pause_at(&gate).expect("paused").approval;
        for (_, other) in &hosts {
            assert!(other.runs().expire().expect("looks").gates.is_empty());
            assert_eq!(other.approvals().get(&gate.id).expect("there").status, ApprovalStatus::Pending);
        }
        let (_, ahead) = &hosts[2];
        let answered = ahead.approvals().approve(&gate.id, &Answer::default()).expect("in time");
        assert_eq!(answered.run.status, RunStatus::Running);
    }
    for (number, (_, host)) in hosts.iter().enumerate() {
        let later = NewRun { admission: Admission::Queue, ..new("queued", &number.to_string()) };
        assert_eq!(host.runs().start(&later).expect("starts").run.status, RunStatus::Queued);
        for (_, other) in &hosts {
            assert!(other.runs().expire().expect("looks").queued.is_empty());
        }
    }
}
