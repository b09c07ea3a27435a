package sandbox

import "errors"

var (
	// ErrUnavailable is wrapped by errors that say that no program can be run, or not safely.
	ErrUnavailable = errors.New("sandbox is unavailable")
	// ErrNoImage is wrapped when an image is not in the host's store. Nothing is ever pulled.
	ErrNoImage = errors.New("image is not there")
	// ErrImageRefused is wrapped when an image is in the store and must not be run.
	ErrImageRefused = errors.New("image is refused")
	// ErrWanted is why there is no pause where the session is wanted after all.
	ErrWanted = errors.New("the session is wanted")
	// ErrStateLost is wrapped when a session that was paused can't go on.
	ErrStateLost = errors.New("the paused session could not go on")
)
