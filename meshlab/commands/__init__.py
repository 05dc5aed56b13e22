"""The commands of `meshlab`: words of a command line come in; a text and an exit status go out."""
