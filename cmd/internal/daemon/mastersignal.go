package daemon

// masterSignal wakes up who looks around when an instance became MASTER.
type masterSignal chan struct{}

func newMasterSignal() masterSignal { return make(masterSignal, 1) }

// Master says that an instance became MASTER. It never waits.
func (m masterSignal) Master() {
	select {
	case m <- struct{}{}:
	default:
	}
}
