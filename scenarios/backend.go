package scenarios

// settle gives what the document leaves out the value that other fields imply.
func (s *Scenario) settle(d *decoder) {
	given := func(path string) bool { _, ok := d.values[path]; return ok }
	s.settleOps(given)
	if s.Drive.Cache != "" && !given("drive.write-cache") {
		s.Drive.WriteCache = s.Drive.Cache.GuestCache()
	}
	if given("workload.load") && !given("workload.load.size") {
		s.Workload.Load.Size = 64 << 20
	}
	if given("workload.load") && !given("workload.load.readers") {
		s.Workload.Load.Readers = 1
	}
	if s.Drive.Backend != File {
		return
	}
	if !given("drive.format") {
		s.Drive.Format = Raw
	}
	if !given("drive.aio") {
		s.Drive.AIO = Threads
	}
	if !given("at-cut") {
		s.AtCut = Keep
	}
}

// checkBackend demands of a scenario no more than its back end can do.
func (s Scenario) checkBackend(d *decoder) error {
	if s.Drive.Backend != File {
		return s.checkEmulated(d)
	}
	v := s.Drive
	switch {
	case v.AIO == Native && !v.Cache.Direct():
		return d.at("drive.aio").errorf("drive.aio: native needs a cache mode that bypasses the host's page cache; set drive.cache to %s or %s", Uncached, Directsync)
	case v.Timing.Profile != NoTiming:
		return d.at("drive.timing").errorf("drive.timing: an image file is as fast as the host; timing needs backend: %s", NBD)
	case len(v.Faults) > 0:
		return d.at("drive.faults").errorf("drive.faults: an image file has none; faults need backend: %s", NBD)
	case s.Cut.Position > 0:
		return d.at("cut.position").errorf("cut.position: an image file has no block log; allowed with backend: %s are op, ack, after and random", File)
	case s.AtCut != Keep:
		return d.at("at-cut").errorf("at-cut: %s cannot be had with backend: %s, where the cut is a SIGKILL of QEMU and the host keeps what QEMU had written; write %s, or leave it out", s.AtCut, File, Keep)
	case len(s.Expect.JournalWrites) > 0:
		return d.at("expect.journal-writes").errorf("expect.journal-writes: an image file has no block log to count in")
	case len(s.Expect.Flushes) > 0:
		return d.at("expect.flushes").errorf("expect.flushes: an image file has no block log to count in")
	case len(s.Expect.ImageErrors) > 0 && v.Format != QCow2:
		return d.at("expect.image-errors").errorf("expect.image-errors: a %s image has no metadata that could be checked; it needs format: %s", v.Format, QCow2)
	}
	return nil
}

// checkEmulated refuses what only an image file has.
func (s Scenario) checkEmulated(d *decoder) error {
	switch {
	case s.Drive.Format != "":
		return d.at("drive.format").errorf("drive.format: is of an image file; it needs backend: %s", File)
	case s.Drive.AIO != "":
		return d.at("drive.aio").errorf("drive.aio: is of an image file; it needs backend: %s", File)
	case len(s.Expect.ImageErrors) > 0:
		return d.at("expect.image-errors").errorf("expect.image-errors: needs an image to be checked: backend: %s and format: %s", File, QCow2)
	}
	return nil
}
