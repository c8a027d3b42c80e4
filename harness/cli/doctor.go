package cli

type doctorCommand struct{}

func (c *doctorCommand) Run() error { return nil }
