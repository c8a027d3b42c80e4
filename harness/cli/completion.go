package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"powercut/images"
	"powercut/scenarios"
)

type completionCommand struct {
	Shell string `arg:"" help:"bash, zsh or fish." enum:"bash,zsh,fish"`
}

// Help says how to use what is printed.
func (completionCommand) Help() string {
	return `In a start-up file, such as ~/.bashrc: eval "$(powercut completion bash)". For fish: powercut completion fish | source.`
}

// The code by which a shell asks powercut itself what fits. Bash takes a colon for the
// end of a word, and then wants what comes after it.
const (
	bashCompletion = `_powercut() {
  local line=${COMP_LINE:0:COMP_POINT} word IFS=$'\n'
  word=${line##* }
  COMPREPLY=($(COMP_LINE=$COMP_LINE COMP_POINT=$COMP_POINT %[1]s))
  case $COMP_WORDBREAKS in *:*) COMPREPLY=("${COMPREPLY[@]#"${word%%"${word##*:}"}"}") ;; esac
}
complete -o default -F _powercut powercut
`
	zshCompletion  = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C %[1]s powercut\n"
	fishCompletion = `function __powercut
  set -lx COMP_LINE (commandline -cp)
  test -z (commandline -ct); and set COMP_LINE "$COMP_LINE "
  set -l fits (%[1]s)
  if set -q fits[1]
    printf '%%s\n' $fits
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c powercut -f -a '(__powercut)'
`
)

// Run prints the code.
func (c *completionCommand) Run(s Streams) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find powercut itself: %w", err)
	}
	code := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err = fmt.Fprintf(s.Out, code, "'"+strings.ReplaceAll(path, "'", `'\''`)+"'")
	return err
}

// completed answers a shell that asks what fits, and tells whether one did: then
// COMP_LINE is in the environment. Where nothing fits, shells offer files.
func completed(parser *kong.Kong) (bool, error) {
	command, err := kongcompletion.Command(parser, kongcompletion.WithPredictors(map[string]complete.Predictor{
		"scenario": complete.PredictFunc(scenarioNames),
		"kernel":   complete.PredictSet(images.Specs()...),
	}))
	if err != nil {
		return false, err
	}
	c := complete.New(parser.Model.Name, command)
	c.Out = parser.Stdout
	return c.Complete(), nil
}

// scenarioNames are the names of scenarios and families.
func scenarioNames(complete.Args) []string {
	names := scenarios.Families()
	for _, i := range scenarios.List() {
		names = append(names, i.Name)
	}
	return names
}
