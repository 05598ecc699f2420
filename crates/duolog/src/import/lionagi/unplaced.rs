//! Values of lionagi's rows without an equivalent: each is noted, so that nothing is dropped silently.

use duolog_state::Foreign;

use crate::error::Result;

/// The columns that are converted or used, with the name of the table in a note.
const PLACED: [(&str, &str, &str, &[&str]); 3] = [
    (
        "session",
        "sessions",
        "id = ?1",
        &[
            "id",
            "created_at",
            "updated_at",
            "started_at",
            "ended_at",
            "user",
            "name",
            "status",
            "agent_name",
            "invocation_kind",
            "playbook_name",
            "show_topic",
            "show_play_name",
            "artifacts_path",
            "node_metadata",
            "progression_id",
            "first_msg_id",
            "last_msg_id",
        ],
    ),
    (
        "branch",
        "branches",
        "session_id = ?1",
        &["id", "created_at", "user", "name", "node_metadata", "session_id", "progression_id", "system_msg_id"],
    ),
    (
        "status transition",
        "status_transitions",
        "entity_type = 'session' AND entity_id = ?1",
        &[
            "id",
            "entity_type",
            "entity_id",
            "previous_status",
            "status",
            "reason_code",
            "reason_summary",
            "evidence_refs",
            "actor",
            "created_at",
        ],
    ),
];
/// The maximum number of bytes of a value in a note.
const NOTE_BYTES_MAX: usize = 256;

/// Returns a note for each row of a session that has values in columns without an equivalent, with the values.
pub(super) fn notes(source: &Foreign, session: &str) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (unit, table, of_session, placed) in PLACED {
        let mut columns: Vec<String> = Vec::new();
        source.each("SELECT name FROM pragma_table_info(?1) ORDER BY cid", &[table], &mut |row| {
            columns.push(row.get(0)?);
            Ok(())
        })?;
        columns.retain(|name| !placed.contains(&name.as_str()));
        if columns.is_empty() {
            continue;
        }
        let values: Vec<String> =
            columns.iter().map(|name| format!("quote(\"{}\")", name.replace('"', "\"\""))).collect();
        let sql = format!("SELECT id, {} FROM {table} WHERE {of_session} ORDER BY id", values.join(", "));
        source.each(&sql, &[session], &mut |row| {
            let mut told = Vec::new();
            for (at, name) in columns.iter().enumerate() {
                let value: String = row.get(at + 1)?;
                // Some programs write `null` for an absent value.
                if value != "NULL" && value != "'null'" {
                    told.push(format!("{name} = {}", &value[..value.floor_char_boundary(NOTE_BYTES_MAX)]));
                }
            }
            if !told.is_empty() {
                notes.push(format!("{unit} {}: not imported: {}", row.get::<String>(0)?, told.join(", ")));
            }
            Ok(())
        })?;
    }
    Ok(notes)
}
