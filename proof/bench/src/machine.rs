//! The machine, without which figures mean nothing.

use std::fs;

use crate::Error;
use crate::options::Options;

/// Cores, processor, kernel and Redis, in one line.
pub(crate) fn describe(options: &Options) -> Result<String, Error> {
    let server = options.server()?;
    let info: String = server.query(redis::cmd("INFO").arg("server"))?;
    let redis = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("unknown");
    let processors = fs::read_to_string("/proc/cpuinfo")?;
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unknown processor", |(_, model)| model.trim());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cores = std::thread::available_parallelism()?;
    let build = if cfg!(debug_assertions) { ", debug build" } else { "" };
    Ok(format!("{cores} cores of {model}, Linux {}, Redis {redis}{build}", kernel.trim()))
}
