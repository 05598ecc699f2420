//! Owned tables: the only record of their data. A rebuild never changes them (I4).

pub mod behind;
pub mod branches;
pub mod compactions;
pub mod cron_overrides;
pub mod cron_runs;
pub mod cron_ticks;
pub mod execution_bodies;
pub mod execution_rollups;
pub mod executions;
pub mod homes;
pub mod inbox_cursors;
pub mod inboxes;
pub mod log_epochs;
pub mod log_paths;
pub mod message_embeddings;
pub mod message_types;
pub mod messages;
pub mod messaging_deliveries;
pub mod messaging_messages;
pub mod messaging_sessions;
pub mod operations;
pub mod outbox;
pub mod pool_segments;
pub mod progression_items;
pub mod progressions;
pub mod repairs;
pub mod seals;
pub mod session_owners;
pub mod sessions;
pub mod status_transitions;
pub mod workflow_approvals;
pub mod workflow_overrides;
pub mod workflow_queue;
pub mod workflow_run_bodies;
pub mod workflow_run_nodes;
pub mod workflow_run_phases;
pub mod workflow_run_scratch;
pub mod workflow_runs;

use duolog_types::HomeId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Returns true if a home has unfinished work: a mark, a line in the outbox, or a deletion.
pub fn has_unfinished_work(tx: &mut Tx<'_>, home: &HomeId) -> Result<bool> {
    let sql = "SELECT 1 WHERE EXISTS (SELECT 1 FROM behind WHERE home_id = ?1) \
               OR EXISTS (SELECT 1 FROM outbox_lines WHERE home_id = ?1) \
               OR EXISTS (SELECT 1 FROM sessions WHERE home_id = ?1 AND deleted_at IS NOT NULL) \
               OR EXISTS (SELECT 1 FROM sessions WHERE home_id = ?1 AND unlink_due = 1)";
    Ok(tx.find(sql, params![home], |_| Ok(()))?.is_some())
}

/// Returns the longest prefix of a text that fits into `max` bytes, cut at a character boundary.
fn clipped(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(super::clipped("aéb", 2), "a");
        assert_eq!(super::clipped("aéb", 3), "aé");
        assert_eq!(super::clipped("aéb", 9), "aéb");
    }
}
