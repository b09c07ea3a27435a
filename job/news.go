package job

// Events about what is no job, batch or run that has ended.
const (
	// EventHeld tells of a job that waits for a decision, with what the list of approvals has of it: a [Pending].
	EventHeld = "job.held"
	// EventScheduleSkipped tells of a fire that started nothing: it was skipped, missed, refused or has failed.
	EventScheduleSkipped = "schedule.skipped"
	// EventSessionEnded tells of the end of a session, whoever wanted it.
	EventSessionEnded = "session.ended"
	// EventEndpointDisabled and EventEndpointEnabled tell the tenant's other endpoints of one that nothing could be delivered
	// to, and of one that was so and takes messages again.
	EventEndpointDisabled = "endpoint.disabled"
	EventEndpointEnabled  = "endpoint.enabled"
)

// ScheduleSkipped is what EventScheduleSkipped tells.
type ScheduleSkipped struct {
	Schedule string `json:"schedule"`
	Fire     Fire   `json:"fire"`
}

// EndpointNews is what EventEndpointDisabled and EventEndpointEnabled tell.
type EndpointNews struct {
	EndpointID string `json:"endpoint_id"`
	URL        string `json:"url"`
	Reason     string `json:"reason,omitempty"` // why it was disabled
}
