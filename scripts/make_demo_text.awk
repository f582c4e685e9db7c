# Writes the demo text: short documents of simple English sentences about a small world whose facts never contradict
# each other.  One sentence a line, a blank line after each document.
#
#   awk -v out=DIR -v documents=N -v held_out=M -f make_demo_text.awk demo_words.txt
#
# writes N documents to DIR/train-00.txt and DIR/train-01.txt and M others to DIR/valid.txt; no document occurs twice.
# The same arguments give the same bytes with every awk.
#
# A new kind of document: a function doc_<kind>() that calls say(), and a line in write_document().

BEGIN { FS = "|" }
/^#/ || NF == 0 { next }
{
    row = ++rows[$1]
    for (i = 2; i <= NF; i++) field[$1, row, i - 1] = $i
}

# Random numbers: the minimal standard generator; its products stay below 2^53, so every awk computes them exactly.
function below(n) {
    state = (state * 16807) % 2147483647
    return int(state / 2147483647 * n)
}
function pick(table) { return 1 + below(rows[table]) }
function f(table, row, column) { return field[table, row, column] }

# One of up to six texts, as many as are given.
function one_of(a, b, c, d, e, g,    n) {
    n = below(g != "" ? 6 : e != "" ? 5 : d != "" ? 4 : c != "" ? 3 : b != "" ? 2 : 1)
    return n == 0 ? a : n == 1 ? b : n == 2 ? c : n == 3 ? d : n == 4 ? e : g
}
function chance(percent) { return below(100) < percent }

function upper_first(s) { return toupper(substr(s, 1, 1)) substr(s, 2) }
function plural(noun) { return noun == "fish" ? noun : noun "s" }
function a_(noun) { return (noun ~ /^[aeiou]/ ? "an " : "a ") noun }
# Adds a sentence to the document, unless it is there already.  (Not with index(): that of mawk 1.3.4 reads past the end of
# long texts.)
function say(sentence) {
    sentence = upper_first(sentence)
    if (sentence in said) return
    said[sentence] = 1
    text = text sentence "\n"
}

# Words of a person; sets the globals name, he, him, his.
function person(row) {
    name = f("person", row, 1)
    he = f("person", row, 2)
    him = he == "he" ? "him" : "her"
    his = he == "he" ? "his" : "her"
}
function another_person(row,    other) {
    do other = pick("person"); while (other == row)
    return other
}

function number_word(n) { return field["number", n] }
function counted(n, animal) { return number_word(n) " " f("animal", animal, n == 1 ? 1 : 2) }

# ---- documents

function doc_animal(    a, one, many, i, n) {
    a = pick("animal"); one = f("animal", a, 1); many = f("animal", a, 2)
    person(pick("person"))
    n = 5 + below(5)
    for (i = 0; i < n; i++) animal_sentence(below(13), a, one, many)
}
function animal_sentence(kind, a, one, many,    sound, sounds, count) {
    sound = f("animal", a, 3); sounds = f("animal", a, 4)
    if (kind == 0) say("the " one " " sound " at the " one_of("stranger", "visitor", "postman", "children", "moon", "thief") ".")
    else if (kind == 1) say("the " one " " sound " " one_of("loudly", "all night", "three times", "in the morning", "again", "happily") ".")
    else if (kind == 2) say("when " a_(one) " is " one_of("hungry", "afraid", "excited") ", it " sounds ".")
    else if (kind == 3) say(one_of("a young ", "a baby ", "a very young ") one " is called " a_(f("animal", a, 6)) ".")
    else if (kind == 4) say("the " one " " one_of("lives", "sleeps", "rests", "hides") " in the " f("animal", a, 5) ".")
    else if (kind == 5) say("the " one " likes to eat " f("animal", a, 7) ".")
    else if (kind == 6) say(many " eat " f("animal", a, 7) ".")
    else if (kind == 7) say("the " one " has " f("animal", a, 9) " legs.")
    else if (kind == 8) say("its body is covered with " f("animal", a, 8) ".")
    else if (kind == 9) say(name " has " a_(f("animal", a, 10) " " one) ".")
    else if (kind == 10) {
        count = 1 + below(9)
        say(counted(count, a) (count == 1 ? " is " : " are ") "in the " f("animal", a, 5) ".")
    } else if (kind == 11) say("the mother " one " " one_of("fed", "washed", "called", "followed") " her " f("animal", a, 6) ".")
    else say(name " " one_of("saw ", "heard ", "fed ", "drew ") a_(one) " and it " sound ".")
}

function doc_things(    i, n, t, o) {
    n = 6 + below(5)
    for (i = 0; i < n; i++) {
        t = pick("thing")
        if (chance(45)) say(f("thing", t, 1) " " f("thing", t, 2) " " f("thing", t, 3) " and " f("thing", t, 4) ".")
        else if (chance(40)) say(f("thing", t, 1) " " f("thing", t, 2) " " f("thing", t, 4) ".")
        else if (chance(50)) say("the colour of " f("thing", t, 1) " is " f("thing", t, 4) ".")
        else {
            o = pick("thing")
            if (f("thing", o, 4) == f("thing", t, 4)) say("both " f("thing", t, 1) " and " f("thing", o, 1) " are " f("thing", t, 4) ".")
            else say(f("thing", t, 1) " " f("thing", t, 2) " " f("thing", t, 4) " but " f("thing", o, 1) " " f("thing", o, 2) " " f("thing", o, 4) ".")
        }
    }
}

function doc_province(    i, n, p, kind, land, city) {
    n = 5 + below(4); p = pick("province")
    for (i = 0; i < n; i++) {
        if (i && chance(15)) p = pick("province")
        land = f("province", p, 1); city = f("province", p, 2)
        kind = below(8)
        if (kind <= 1) say("the capital of " land " is " city ".")
        else if (kind == 2) say(city " is the capital of " land ".")
        else if (kind == 3) say("the river " f("province", p, 3) " flows through " one_of(land, city) ".")
        else if (kind == 4) say("the people of " land " sell " f("province", p, 4) ".")
        else if (kind == 5) say(land " is famous for its " f("province", p, 4) ".")
        else if (kind == 6) say("the highest mountain of " land " is " f("province", p, 5) ".")
        else say("the king of " land " lives in a palace in " city ".")
    }
}

function doc_job(    j, i, n, kind) {
    j = pick("job"); person(pick("person"))
    say(name " is " a_(f("job", j, 1)) ".")
    n = 4 + below(4)
    for (i = 0; i < n; i++) {
        kind = below(7)
        if (kind == 0) say(he " works with " one_of("a good ", "an old ", "a new ", "a heavy ") f("job", j, 2) ".")
        else if (kind == 1) say("every day " he " goes to the " f("job", j, 4) ".")
        else if (kind == 2) say(one_of("yesterday ", "last week ", "on Monday ", "this morning ") he " " f("job", j, 5) " " f("job", j, 3) ".")
        else if (kind == 3) say("the " f("job", j, 1) " " f("job", j, 5) " " f("job", j, 3) " with the " f("job", j, 2) ".")
        else if (kind == 4) say("the " f("job", j, 1) " works in the " f("job", j, 4) ".")
        else if (kind == 5) say(name " likes " his " work, because " he " is a good " f("job", j, 1) ".")
        else say("a " f("job", j, 1) " needs " a_(f("job", j, 2)) ".")
    }
}

function doc_gift(    g, p, q, i, n, giver, taker, where, gift, deed) {
    n = 1 + below(2)
    for (i = 0; i < n; i++) {
        p = pick("person"); q = another_person(p); g = pick("gift")
        gift = f("gift", g, 1); where = f("gift", g, 2); deed = f("gift", g, 3)
        person(p); giver = name
        if (chance(70)) say(giver " went to the " f("gift", g, 4) " and bought " a_(gift) ".")
        say("then " he " " one_of("gave", "brought", "sent") " the " gift " to " f("person", q, 1) ".")
        person(q); taker = name
        say(taker " " one_of("thanked ", "hugged ", "smiled at ") giver " and put the " gift " " where ".")
        if (deed ~ / /) say("in the evening " he " " deed ".")
        else say("in the evening " he " " deed " it" one_of("", " with " his " sister", " in " his " room") ".")
        if (chance(50)) say("now the " gift " is " where " and it belongs to " him ".")
        if (chance(40)) say(giver " was glad that " taker " liked the " gift ".")
    }
}

function doc_numbers(    i, n, a, b, kind) {
    n = 6 + below(5)
    for (i = 0; i < n; i++) {
        a = 1 + below(10); b = 1 + below(10); kind = below(5)
        if (kind <= 1) say(number_word(a) " plus " number_word(b) " is " number_word(a + b) ".")
        else if (kind == 2) say(number_word(a + b) " minus " number_word(a) " is " number_word(b) ".")
        else if (kind == 3) say("after " number_word(a + b) " comes " number_word(a + b + 1) ".")
        else say(number_word(a) " is " (a == b ? "equal to " : a < b ? "less than " : "more than ") number_word(b) ".")
    }
}

function doc_calendar(    i, n, d, kind) {
    n = 6 + below(4)
    for (i = 0; i < n; i++) {
        kind = below(6)
        if (kind == 0) { d = below(7); say("the day after " day[d] " is " day[(d + 1) % 7] ".") }
        else if (kind == 1) { d = below(7); say("the day before " day[d] " is " day[(d + 6) % 7] ".") }
        else if (kind == 2) { d = below(12); say("the month after " month[d] " is " month[(d + 1) % 12] ".") }
        else if (kind == 3) { d = below(7); say("if today is " day[d] ", tomorrow will be " day[(d + 1) % 7] ".") }
        else if (kind == 4) { d = below(12); say(month[d] " is a month of " season_of[d] ".") }
        else { d = pick("hour"); say("at " f("hour", d, 1) " people " f("hour", d, 2) " " f("hour", d, 3) ".") }
    }
}

function doc_weather(    w, s, i, n, kind) {
    w = pick("weather"); person(pick("person"))
    n = 5 + below(4)
    for (i = 0; i < n; i++) {
        s = pick("season"); kind = below(8)
        if (kind == 0) say("when it " f("weather", w, 1) ", people need " a_(f("weather", w, 3)) ".")
        else if (kind == 1) say("yesterday it " f("weather", w, 2) " and there were " f("weather", w, 5) " everywhere.")
        else if (kind == 2) say("it often " f("weather", w, 1) " in " f("weather", w, 4) ".")
        else if (kind == 3) say(name " forgot " his " " f("weather", w, 3) " when it " f("weather", w, 2) ".")
        else if (kind == 4) say("in " f("season", s, 1) " " f("season", s, 2) ".")
        else if (kind == 5) say("in " f("season", s, 4) " it is " f("season", s, 3) " and people wear " a_(f("season", s, 5)) ".")
        else if (kind == 6) say("the " f("season", s, 1) " was " f("season", s, 3) " this year.")
        else say("after it " f("weather", w, 2) ", everything was " f("weather", w, 6) ".")
    }
}

function doc_meal(    m, d, p, i, n, kind) {
    person(pick("person")); n = 5 + below(4)
    for (i = 0; i < n; i++) {
        m = pick("food"); d = pick("drink"); p = pick("plant"); kind = below(9)
        if (kind == 0) say(name " eats " f("food", m, 1) " with a " f("food", m, 3) ".")
        else if (kind == 1) say(f("food", m, 1) " " f("food", m, 2) " eaten with a " f("food", m, 3) ".")
        else if (kind == 2) say((f("food", m, 4) == "noon" ? "at noon " : "in the " f("food", m, 4) " ") name " had a " f("food", m, 5) " of " f("food", m, 1) ".")
        else if (kind == 3) say(he " drank a " f("drink", d, 3) " of " f("drink", d, 2) " " f("drink", d, 1) ".")
        else if (kind == 4) say(name " poured the " f("drink", d, 1) " into a " f("drink", d, 3) ".")
        else if (kind == 5) say(f("plant", p, 1) " grow " f("plant", p, 3) ".")
        else if (kind == 6) say(name " picked " a_(f("plant", p, 2)) " in the " f("plant", p, 4) ".")
        else if (kind == 7) say(he " was " one_of("hungry and ate", "not thirsty but ate") " " f("food", m, 1) ".")
        else say(he " was thirsty and drank " f("drink", d, 1) ".")
    }
}

function doc_opposites(    i, n, o, side, kind, a, b) {
    n = 6 + below(5)
    for (i = 0; i < n; i++) {
        o = pick("opposite"); side = 1 + below(2); kind = below(6)
        if (kind <= 2) say("the opposite of " f("opposite", o, side) " is " f("opposite", o, 3 - side) ".")
        else if (kind == 3) say(f("opposite", o, side) " is the opposite of " f("opposite", o, 3 - side) ".")
        else {
            a = 1 + below(rows["size"] - 1); b = a + 1 + below(rows["size"] - a)
            if (kind == 4) say(a_(f("size", b, 1)) " is bigger than " a_(f("size", a, 1)) ".")
            else say(a_(f("size", a, 1)) " is smaller than " a_(f("size", b, 1)) ".")
        }
    }
}

function doc_travel(    v, q, p, land) {
    v = pick("vehicle"); q = pick("province"); person(pick("person"))
    land = f("province", q, 1)
    say(name " wanted to travel to " one_of(land, f("province", q, 2) ", the capital of " land) ".")
    say(he " went to the " f("vehicle", v, 2) " and waited for the " f("vehicle", v, 1) ".")
    if (chance(60)) say("the " f("vehicle", v, 1) " " f("vehicle", v, 5) " on the " f("vehicle", v, 3) ".")
    if (chance(60)) say("the " f("vehicle", v, 4) " was " one_of("friendly", "tired", "old", "late", "very young") ".")
    if (chance(50)) say("from the window " he " saw the river " f("province", q, 3) ".")
    if (chance(50)) say(he " also saw the mountain " f("province", q, 5) ".")
    say("in " f("province", q, 2) " " he " bought " one_of("some ", "cheap ", "the best ") f("province", q, 4) " for " his " " one_of("mother", "father", "brother", "sister", "friend") ".")
    if (chance(60)) say("the next " day[below(7)] " " he " came home " one_of("tired", "happy", "late", "early") ".")
}

function doc_home(    i, n, kind, r, c, s, m, k) {
    person(pick("person")); n = 6 + below(4)
    for (i = 0; i < n; i++) {
        r = pick("room"); c = pick("clothes"); s = pick("sense"); m = pick("material"); k = pick("instrument"); kind = below(11)
        if (kind == 0) say("people " f("room", r, 2) " in the " f("room", r, 1) ".")
        else if (kind == 1) say("there is a " f("room", r, 3) " in the " f("room", r, 1) ".")
        else if (kind == 2) say(name " wears a " f("clothes", c, 1) " on " his " " f("clothes", c, 2) ".") 
        else if (kind == 3) say("we " f("sense", s, 2) " with our " f("sense", s, 1) ".")
        else if (kind == 4) say("with " his " " f("sense", s, 1) " " he " can " f("sense", s, 2) " " f("sense", s, 3) ".")
        else if (kind == 5) say("the " f("material", m, 1) " is made of " f("material", m, 2) ".")
        else if (kind == 6) say(f("material", m, 2) " comes from " f("material", m, 3) ".")
        else if (kind == 7) say("the " f("instrument", k, 2) " plays the " f("instrument", k, 1) ".")
        else if (kind == 8) say("the " f("instrument", k, 1) " is played with " f("instrument", k, 3) ".")
        else if (kind == 9) say(name " went to the " f("room", r, 1) " to " f("room", r, 2) ".")
        else say(one_of("the mother of my mother is my grandmother", "the father of my mother is my grandfather", \
            "the son of my uncle is my cousin", "the sister of my father is my aunt", \
            "the sun rises in the east", "the sun sets in the west") ".")
    }
}

function doc_kinds(    i, n, k, kind, name_of) {
    person(pick("person")); n = 6 + below(5)
    for (i = 0; i < n; i++) {
        k = pick("kind"); kind = below(6)
        name_of = f("kind", k, 3) == "yes" ? a_(f("kind", k, 1)) : f("kind", k, 1)
        if (kind <= 2) say(name_of " is " a_(f("kind", k, 2)) ".")
        else if (kind == 3) say(name " asked what " name_of " is, and the teacher said that it is " a_(f("kind", k, 2)) ".")
        else if (kind == 4) say("among all " plural(f("kind", k, 2)) ", " name " likes the " f("kind", k, 1) " best.")
        else say("one " f("kind", k, 2) " is called " f("kind", k, 1) ".")
    }
}

# A child, a pet and a small misfortune.
function doc_story(    a, p, q, owner, friend, pet, place, sound, g) {
    a = 1 + below(4); p = pick("person"); q = another_person(p); g = pick("gift")
    person(p); owner = name; friend = f("person", q, 1); pet = f("animal", a, 1); sound = f("animal", a, 3)
    place = one_of("forest", "park", "market", "harbour", "meadow", "village")
    say(one_of("once upon a time ", "long ago ", "one day ", "last summer ") owner " had " a_(pet) ".")
    say("the " pet " was " f("animal", a, 10) " and " one_of("very clever", "a little lazy", "always hungry", "quite small") ".")
    say("one " day[below(7)] " the " pet " ran away to the " place ".")
    say(owner " was sad and looked for " his " " pet ".")
    if (chance(60)) say(he " asked " friend " to help " him ".")
    say("together they went to the " place ".")
    if (chance(60)) say("there they heard that something " sound ".")
    say(one_of("behind a tree", "under a bench", "near the water", "between two stones") " they found the " pet ".")
    say("the " pet " " sound " and " owner " was happy again.")
    if (chance(60)) say("at home " he " gave it some " f("animal", a, 7) ".")
    if (chance(50)) say("then it went to sleep in its " f("animal", a, 5) ".")
}

# Words of earlier documents, in turn.  A unigram tokenizer makes pieces only of what stands in two different surroundings;
# without the commas here "is" and "has" would not become pieces, because nothing ever follows them but a space.
function doc_dictation(    i, n, list) {
    n = 10 + below(5)
    for (i = 0; i < n; i++) {
        list = list (i ? ", " : "") seen_word[dictated % seen_words]
        dictated++
    }
    say("the teacher read these words aloud: " list ".")
    say("the children wrote them down without a mistake.")
}

# Takes the words of a finished document into the list of the dictations.
function remember_words(document,    count, i, words) {
    gsub(/[.,:\n]/, " ", document)
    count = split(document, words, " ")
    for (i = 1; i <= count; i++) {
        if (words[i] in is_seen) continue
        is_seen[words[i]] = 1
        seen_word[seen_words++] = words[i]
    }
}

function write_document(    kind) {
    text = ""
    split("", said)
    kind = below(100)
    if (kind < 17) doc_animal()
    else if (kind < 25) doc_things()
    else if (kind < 31) doc_province()
    else if (kind < 36) doc_kinds()
    else if (kind < 46) doc_job()
    else if (kind < 54) doc_gift()
    else if (kind < 61) doc_numbers()
    else if (kind < 67) doc_calendar()
    else if (kind < 74) doc_weather()
    else if (kind < 81) doc_meal()
    else if (kind < 87) doc_opposites()
    else if (kind < 91) doc_travel()
    else if (kind < 95) doc_home()
    else if (kind < 98 || seen_words < 100) doc_story()
    else doc_dictation()
}

# Writes `count` documents that have not been written before.
function write_documents(path, count, seed,    i) {
    state = seed
    for (i = 0; i < count; i++) {
        do write_document(); while (text in written)
        written[text] = 1
        remember_words(text)
        print text > path
    }
    if (close(path) != 0) { print path ": cannot be written" > "/dev/stderr"; exit 1 }
}

END {
    split("two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen " \
        "eighteen nineteen twenty twenty-one", word, " ")
    field["number", 1] = "one"
    for (i = 1; i <= 20; i++) field["number", i + 1] = word[i]
    split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday", word, " ")
    for (i = 1; i <= 7; i++) day[i - 1] = word[i]
    split("January February March April May June July August September October November December", word, " ")
    for (i = 1; i <= 12; i++) {
        month[i - 1] = word[i]
        season_of[i - 1] = i <= 2 || i == 12 ? "winter" : i <= 5 ? "spring" : i <= 8 ? "summer" : "autumn"
    }
    write_documents(out "/train-00.txt", int(documents / 2), 20061)
    write_documents(out "/train-01.txt", documents - int(documents / 2), 404768)
    write_documents(out "/valid.txt", held_out, 1907)
}
