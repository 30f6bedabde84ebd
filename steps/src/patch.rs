//! Scripts, broken on purpose by proofs.

/// A text of a script, and the replacement: a proof leaves out a line on purpose, and sees that a test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPatch {
    /// The script's name. Empty: every script with the text.
    pub script: &'static str,
    /// The text.
    pub from: &'static str,
    /// The replacement of the first occurrence.
    pub to: &'static str,
}

/// The text of a script with the patches of this script.
///
/// # Panics
/// A patch names the script, and the script lacks the text.
pub fn patched(script: &str, text: String, patches: &[ScriptPatch]) -> String {
    let of_script = patches.iter().filter(|patch| patch.script.is_empty() || patch.script == script);
    of_script.fold(text, |text, patch| {
        assert!(patch.script.is_empty() || text.contains(patch.from), "{script} has no {:?}", patch.from);
        text.replacen(patch.from, patch.to, 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ScriptPatch = ScriptPatch { script: "add", from: "1", to: "2" };
    const EVERYWHERE: ScriptPatch = ScriptPatch { script: "", ..HERE };

    #[test]
    fn a_patch_changes_the_first_text_of_its_script() {
        let of = |script: &str, patches: &[_]| patched(script, "return 1 + 1".to_owned(), patches);
        assert_eq!(of("add", &[HERE]), "return 2 + 1");
        assert_eq!(of("sub", &[HERE]), "return 1 + 1");
        assert_eq!(of("sub", &[EVERYWHERE, EVERYWHERE]), "return 2 + 2");
        assert_eq!(patched("sub", "return 0".to_owned(), &[EVERYWHERE]), "return 0");
    }

    #[test]
    #[should_panic(expected = "add has no \"1\"")]
    fn a_patch_whose_text_is_gone_is_an_error() {
        patched("add", "return 0".to_owned(), &[HERE]);
    }
}
