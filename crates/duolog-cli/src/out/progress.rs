//! Progress bars.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The number of redraws per second.
const DRAWS_PER_SECOND: u8 = 10;

/// A command that ends before this shows no progress bar.
const SHOWN_AFTER: Duration = Duration::from_millis(300);

/// A progress bar on stderr, or a hidden one. Dropping it clears it.
pub struct Progress(Option<(ProgressBar, Instant)>);

impl Progress {
    pub(super) fn new(what: &'static str, is_shown: bool) -> Self {
        if !is_shown {
            return Self(None);
        }
        let bar = ProgressBar::hidden();
        bar.set_style(style("{spinner} {prefix} {bytes} {msg}"));
        bar.set_prefix(what);
        Self(Some((bar, Instant::now())))
    }

    /// Returns the bar if it is shown, and shows it once the command has run for long enough.
    fn bar(&self) -> Option<&ProgressBar> {
        let (bar, begun) = self.0.as_ref()?;
        if bar.is_hidden() && begun.elapsed() >= SHOWN_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Some(bar)
    }

    /// Sets the number of processed bytes and the total, if it is known.
    pub fn set(&self, done: u64, of: Option<u64>) {
        let Some(bar) = self.bar() else { return };
        if let Some(total) = of
            && bar.length() != Some(total)
        {
            bar.set_style(style("{prefix} {wide_bar} {bytes}/{total_bytes} {eta} {msg}"));
            bar.set_length(total);
        }
        bar.set_position(done);
    }

    /// Sets the number of processed items and the total.
    pub fn count(&self, done: u64, of: u64) {
        let Some(bar) = self.bar() else { return };
        if bar.length() != Some(of) {
            bar.set_style(style("{prefix} {wide_bar} {human_pos}/{human_len} {eta} {msg}"));
            bar.set_length(of);
        }
        bar.set_position(done);
    }

    /// Sets the message: the current item.
    pub fn at(&self, text: &str) {
        if let Some(bar) = self.bar() {
            bar.set_message(super::prose::plain(text));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((bar, _)) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
