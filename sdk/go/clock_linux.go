package tenure

import (
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1

// monotonic is the time by CLOCK_MONOTONIC, which is what Tenure goes by.
func monotonic() (time.Duration, bool) {
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano()), failed == 0
}
