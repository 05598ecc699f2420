//! Faults of a process: killed, paused, slowed down, a wrong clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::random::Random;

/// System calls at which a process can be paused or killed, and the highest call number for each.
const CALLS: &[(&str, u64)] = &[
    ("flock", 24),
    ("openat", 40),
    ("openat2", 8),
    ("pwrite64", 60),
    ("write", 6),
    ("fdatasync", 5),
    ("unlinkat", 3),
    ("renameat", 2),
    ("fcntl", 90),
    ("statx", 12),
    ("ftruncate", 3),
    ("sendto", 20),
];

/// Shifts the wall clocks of a process by the milliseconds in `BLACKBOX_CLOCK_MS`. Monotonic clocks are not changed.
const CLOCK_SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long long offset_ms(void) {
    const char *text = getenv("BLACKBOX_CLOCK_MS");
    return text ? atoll(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, at);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        long long ms = offset_ms();
        at->tv_sec += ms / 1000;
        at->tv_nsec += (ms % 1000) * 1000000;
        if (at->tv_nsec < 0) { at->tv_nsec += 1000000000; at->tv_sec -= 1; }
        if (at->tv_nsec >= 1000000000) { at->tv_nsec -= 1000000000; at->tv_sec += 1; }
    }
    return code;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t)-1;
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The fault of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// SIGKILL after a delay.
    Kill(Duration),
    /// SIGSTOP after a delay, SIGCONT after another.
    Pause(Duration, Duration),
    /// SIGSTOP and SIGCONT in turn, so that the process advances in small steps.
    Stutter(Duration),
    /// Paused before its nth call of one kind.
    PauseAt(&'static str, u64, Duration),
    /// Killed at its nth call of one kind.
    KillAt(&'static str, u64),
}

impl Fault {
    /// Returns true if the process may end by SIGKILL.
    pub fn kills(&self) -> bool {
        matches!(self, Self::Kill(_) | Self::KillAt(..))
    }

    /// Returns true if the process is stopped for a while.
    pub fn pauses(&self) -> bool {
        matches!(self, Self::Pause(..) | Self::Stutter(_) | Self::PauseAt(..))
    }
}

/// The programs for faults on this machine, found once.
#[derive(Debug)]
pub struct FaultTools {
    clock_shim: Option<PathBuf>,
    strace: bool,
}

impl FaultTools {
    /// Builds the clock shim in `directory` and checks for strace.
    pub fn find(directory: &Path) -> Self {
        let quiet = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        let built = fs::write(&source, CLOCK_SHIM).is_ok()
            && quiet(Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl"));
        // A container may forbid tracing although strace is installed.
        let strace = quiet(Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "true"]));
        Self { clock_shim: built.then_some(library), strace }
    }

    /// Returns what is missing, for the summary.
    pub fn missing(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.clock_shim.is_none() {
            missing.push("no C compiler: no clock jumps");
        }
        if !self.strace {
            missing.push("no strace: no pauses and kills at chosen system calls");
        }
        missing
    }

    /// Returns the library that shifts clocks.
    pub fn clock_shim(&self) -> Option<&Path> {
        self.clock_shim.as_deref()
    }

    /// Chooses a fault for a command that usually takes `usual`.
    pub fn choose(&self, random: &mut Random, usual: Duration) -> Fault {
        let micros = u64::try_from(usual.as_micros()).unwrap_or(20_000).max(2_000);
        let moment = |random: &mut Random| Duration::from_micros(random.below(micros * 5 / 4));
        match random.below(100) {
            0..7 => Fault::Kill(moment(random)),
            7..12 => Fault::Pause(moment(random), Duration::from_millis(5 + random.below(250))),
            12..15 => Fault::Stutter(Duration::from_micros(200 + random.below(2_000))),
            15..25 if self.strace => {
                let (call, most) = Self::call(random);
                Fault::PauseAt(call, 1 + random.below(most), Duration::from_millis(5 + random.below(250)))
            }
            25..31 if self.strace => {
                let (call, most) = Self::call(random);
                Fault::KillAt(call, 1 + random.below(most))
            }
            _ => Fault::None,
        }
    }

    fn call(random: &mut Random) -> (&'static str, u64) {
        CALLS[usize::try_from(random.below(CALLS.len() as u64)).unwrap_or(0)]
    }

    /// Chooses the error of a command's wall clock.
    pub fn clock_jump(&self, random: &mut Random) -> Option<i64> {
        const JUMPS_MS: [i64; 6] = [-86_400_000, -3_600_000, -61_000, 61_000, 3_600_000, 86_400_000];
        (self.clock_shim.is_some() && random.below(100) < 8)
            .then(|| JUMPS_MS[usize::try_from(random.below(JUMPS_MS.len() as u64)).unwrap_or(0)])
    }
}
