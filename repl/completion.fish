complete -c finch -n __fish_use_subcommand -a "@COMMANDS@"
complete -c finch -o e -o i -l version
