//go:build !linux

package tenure

import "time"

// monotonic is not known here: a lease lasts from when its message was read.
func monotonic() (time.Duration, bool) { return 0, false }
