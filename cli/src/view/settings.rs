//! The settings of a pool, as they are shown.

use serde::Serialize;
use tenure_pool::setting::SettingInfo;

use crate::out::{Cell, Column, Row, Tone};

/// A setting.
#[derive(Serialize)]
pub(crate) struct Shown(pub(crate) SettingInfo);

impl Row for Shown {
    const KIND: &'static str = "settings";
    const COLUMNS: &'static [Column] = &[
        Column::new("NAME"),
        Column::new("VALUE").right(),
        Column::new("DEFAULT").right(),
        Column::new("CHANGEABLE"),
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let Self(setting) = self;
        let differs = setting.value != setting.default;
        let value = Cell::new(&setting.value).tone(if differs { Tone::Warn } else { Tone::Plain });
        let changeable = if setting.changeable { Cell::new("yes") } else { Cell::new("no").tone(Tone::Dim) };
        vec![Cell::new(setting.name), value, Cell::new(&setting.default), changeable]
    }

    fn name(&self) -> String {
        self.0.name.to_owned()
    }
}
