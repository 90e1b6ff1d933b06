def late():
    from neighbour import nothing_of_the_kind


late()
