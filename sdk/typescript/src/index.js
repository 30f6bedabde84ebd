// Host the jobs of a Tenure pool: thousands of keys in one process. It needs Node.js alone.

export { Host } from "./host.js";
export { Job, Lease, Notification } from "./job.js";
export { Pool } from "./pool.js";
export { Cancelled, Fenced, LeaseLost, Moved, Park, Refuse, RequestError, Restart } from "./errors.js";
