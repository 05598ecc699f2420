//! A directory in memory, to be written out.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// One file or directory.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File { mode: u32, bytes: Vec<u8> },
    Directory { mode: u32 },
}

/// Files and directories by path, each directory before its content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(Vec<(String, Node)>);

impl Tree {
    pub(crate) fn push(&mut self, path: &str, node: Node) {
        self.0.push((path.to_owned(), node));
    }

    /// Returns the content of a file; `None` if it does not exist.
    #[cfg(test)]
    pub(crate) fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.0.iter().find_map(|(at, node)| match node {
            Node::File { bytes, .. } if at == path => Some(bytes.clone()),
            _ => None,
        })
    }

    /// Writes everything into an empty directory.
    pub(crate) fn write_to(&self, into: &Path) {
        for (path, node) in &self.0 {
            let at = into.join(path);
            match node {
                Node::Directory { mode } => fs::DirBuilder::new().mode(*mode).create(&at).expect("a directory"),
                Node::File { mode, bytes } => {
                    fs::write(&at, bytes).expect("a file");
                    fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).expect("a mode");
                }
            }
        }
    }
}
