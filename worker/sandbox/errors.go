package sandbox

import "errors"

var (
	// ErrUnavailable is wrapped by errors that say that no program can be run, or not safely.
	ErrUnavailable = errors.New("sandbox is unavailable")
	// ErrNoImage is wrapped when an image is not in the host's store. Nothing is ever pulled.
	ErrNoImage = errors.New("image is not there")
	// ErrImageRefused is wrapped when an image is in the store and must not be run.
	ErrImageRefused = errors.New("image is refused")
)
