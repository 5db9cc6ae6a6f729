# Completion of landfall in fish. The program itself says what fits.
function __landfall_complete
    set -l words (commandline -opc)
    # Variables before the command.
    while string match -qr '^\w+=' -- "$words[1]"
        set -e words[1]
    end
    set -l word (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l answer (command $program complete fish $words "$word" 2> /dev/null)
    if set -q answer[2]
        printf '%s\n' $answer[2..]
        return
    end
    # What fish completes by itself where nothing else fits.
    set -l option (string match -r '^-[^=]*=' -- $word)
    set -l path (string replace -r '^-[^=]*=' '' -- $word)
    switch "$answer[1]"
        case files
            printf "$option%s\n" (__fish_complete_path "$path")
        case directories
            printf "$option%s\n" (__fish_complete_directories "$path" '')
    end
end
complete -c landfall -fk -a '(__landfall_complete)'
