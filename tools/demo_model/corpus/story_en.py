"""Short stories on request, in English: a few plots, each a row of slots with several wordings."""

from corpus import words as W

ASK_TOPIC = """Tell me a short story about {a}.|Tell me a story about {a}.|Write a short story about {a}.
Write a story about {a}.|Can you tell me a story about {a}?|Please tell me a short story about {a}.
I want to hear a story about {a}.|Give me a short story about {a}.|Could you write a little story about {a}?
A story about {a}, please.|Tell a story about {a}.|Make up a story about {a}.|story about {a}
I would like a story about {a}.|Do you know a story about {a}?|Tell me a bedtime story about {a}.
Tell me a little story about {a}.|short story about {a}|Write me a short story about {a}.
Write a short story for children about {a}.|Tell me about {a} in a short story.""".replace("\n", "|").split("|")

ASK_FREE = """Tell me a story.|Tell me a short story.|Write a story.|Can you tell me a story?|Write a short story.
Please tell me a story.|I want to hear a story.|Do you know a story?|Tell me a bedtime story.|A story, please.
Give me a story.|Tell me another story.|Make up a story.|Read me a story.|I would like a story.|story
Can you write a short story?|Tell me something nice.""".replace("\n", "|").split("|")

OPEN = ["Once upon a time, there was a {adj} {topic} named {name} who lived {place}.",
        "Once there was a {adj} {topic} called {name}. {He} lived {place}.",
        "Long ago, {a_adj} {topic} named {name} lived {place}.",
        "{Place}, there lived a {adj} {topic} named {name}.",
        "Once upon a time, a {adj} {topic} named {name} lived {place}."]

PLACES = ["near a quiet river", "at the edge of a green forest", "in a small village", "on a windy hill",
          "beside a blue lake", "in a little house by the sea", "under an old oak tree", "in a sunny valley",
          "behind a big red barn", "in a busy town"]

END = ["From that day on, {name} was never lonely again.", "And that night, {name} slept with a smile.",
       "{name} learned that {moral}.", "And they lived happily ever after.",
       "From then on, {name} always remembered that {moral}.", "{name} had never been so happy.",
       "And so {name} learned that {moral}."]

HERO_PLOTS = {
    "lost": (["a little help makes a big difference", "a good friend shows the way"], [
        ["One {day}, {name} walked too far and got lost.", "One {day}, {name} followed a butterfly and lost the way home.",
         "One {day}, a thick fog came, and {name} could not find the way home."],
        ["{He} looked left and right, but everything looked strange.", "{He} felt very small and began to cry.",
         "It was getting dark, and {he} was afraid."],
        ["Then {a_friend} came by and asked, \"Why are you sad?\"", "Just then, {a_friend} heard {him} and stopped.",
         "A friendly {friend} saw {him} and asked, \"Can I help you?\""],
        ["\"I want to go home,\" said {name}.", "\"I am lost,\" {name} said softly."],
        ["\"Follow me,\" said the {friend}. \"I know the way.\"", "The {friend} smiled and said, \"Come, I will walk with you.\""],
        ["Together they walked under the stars until they saw a warm light.",
         "Step by step they went, singing a little song, until {name} saw home."],
        ["{name} thanked the {friend} and shared some {food}.", "\"Thank you!\" said {name}, and they ate {food} together."]]),
    "fear": (["being brave means trying even when you are afraid", "courage grows a little every day"], [
        ["{name} was afraid of {fear}.", "There was one problem: {name} was very afraid of {fear}.",
         "Everybody liked {name}, but {he} had a secret. {He} was afraid of {fear}."],
        ["One {day}, {a_friend} called for help.", "One {day}, {name} heard a cry. It was {a_friend} in trouble.",
         "Then one {day}, {a_friend} fell into a hole and could not get out."],
        ["Nobody else was near, and it was because of {fear} that {name} wanted to run away.",
         "{name} thought of {fear} and trembled, but {he} did not run away.",
         "{name}'s heart was beating fast."],
        ["\"I must try,\" {he} said, and took a deep breath.", "{He} closed {his} eyes, counted to three and went on.",
         "\"If I do not help, who will?\" {he} thought."],
        ["Step by step {he} came closer, took a long rope and pulled the {friend} out.",
         "{He} held out {his} hand and pulled until the {friend} was safe."],
        ["\"You are so brave!\" said the {friend}.", "The {friend} hugged {him} and said, \"You saved me!\""],
        ["After that, {fear} did not seem so bad.", "{name} laughed, because {fear} was not so terrible after all."]]),
    "found": (["honest hearts find good friends", "doing the right thing feels good"], [
        ["One {day}, {name} found a shiny {thing} on the path.", "One {day}, {name} saw something in the grass. It was a {thing}.",
         "While walking one {day}, {name} found a lost {thing}."],
        ["\"How beautiful!\" {he} said. \"I would like to keep it.\"", "It was very pretty, and {name} wanted to keep it.",
         "{He} picked it up and looked at it for a long time."],
        ["But then {he} thought, \"Somebody must be missing it.\"", "But {he} knew that it belonged to somebody else."],
        ["So {name} went from door to door and asked everyone.", "So {name} asked everyone on the road, one after another."],
        ["At last {he} met {a_friend} who was very sad.", "In the evening {he} met {a_friend} with tears in its eyes."],
        ["\"Is this your {thing}?\" asked {name}.", "\"I found this {thing}. Is it yours?\" asked {name}."],
        ["The {friend} jumped with joy. \"Thank you! You are so honest.\"",
         "\"Yes! My grandmother gave it to me,\" said the {friend} happily."],
        ["They shared some {food} and became best friends.", "From that day, {name} and the {friend} were good friends."]]),
    "share": (["sharing makes everything taste better", "kindness always comes back"], [
        ["That {season}, food was hard to find.", "One cold {season}, there was very little to eat."],
        ["{name} had only one small basket of {food}.",
         "{name} had saved a little {food} in the cupboard."],
        ["One {day}, there was a knock at the door. It was a hungry {friend}.",
         "One {day}, a tired and hungry {friend} came to the door."],
        ["\"Please, do you have something to eat?\" asked the {friend}.", "\"I have not eaten for two days,\" said the {friend}."],
        ["{name} thought for a moment and said, \"Come in. We will share.\"",
         "\"It is not much,\" said {name}, \"but half of it is yours.\""],
        ["They sat by the fire, ate {food} and told each other funny stories.",
         "They ate together, and the small room felt warm and bright."],
        ["When spring came, the {friend} came back with a big basket full of {food}.",
         "Some weeks later, the {friend} returned with friends and a cart full of food."]]),
    "race": (["helping a friend is better than winning", "a true winner has a kind heart"], [
        ["Every year there was a big race, and {name} wanted to win.", "One {day}, there was a great race around the hill."],
        ["{He} practiced every morning before breakfast.", "{He} had trained for many weeks."],
        ["Ready, steady, go! {name} ran as fast as the wind.", "The whistle blew, and everybody began to run."],
        ["{He} was almost first when {he} heard a cry.", "Near the end, {name} was in front of everyone. Then {he} heard a cry."],
        ["{A_friend} had fallen and hurt its foot.", "Behind {him}, {a_friend} had fallen over a stone."],
        ["{name} stopped, turned around and helped the {friend} to stand up.",
         "\"The race can wait,\" said {name}, and went back to help."],
        ["They walked to the end together, and they were the last.", "Side by side they crossed the line, last of all."],
        ["But everybody clapped and cheered for {name}.", "But the crowd cheered louder than ever, and both got a prize."]]),
    "learn": (["practice makes every dream come closer", "nobody is too small to learn"], [
        ["{name} had a dream: {he} wanted to learn to {skill}.", "More than anything, {name} wanted to {skill}."],
        ["\"You can not do that!\" laughed the others.", "But everybody said, \"That is not for you.\""],
        ["{name} was sad, but {he} did not give up.", "{name} only smiled and tried again."],
        ["Every {day}, {he} practiced for one hour with a wise old {friend}.",
         "A wise old {friend} said, \"Try a little every day, and you will see.\""],
        ["The first day it went wrong, and the second day too.", "At first {he} made many mistakes."],
        ["But slowly, day after day, it became easier.", "But {he} learned something from each mistake."],
        ["At the summer party, {name} stood up and began to {skill}, and everybody was amazed.",
         "One evening {he} tried once more, and at last {he} could {skill}. Everybody clapped."],
        ["\"How did you do that?\" they asked. \"One step at a time,\" said {name}.",
         "The old {friend} nodded and smiled. \"I always knew it,\" it said."]]),
    "storm": (["together we are stronger than any storm", "a home is warmer with friends"], [
        ["One {day}, dark clouds came and a storm began.", "One {day}, the wind blew harder and harder, and it began to rain."],
        ["{name} was safe and warm inside.", "{name} closed the window and made some hot soup."],
        ["Suddenly {he} heard a small voice outside: \"Help!\"", "Then {he} heard somebody knocking at the door."],
        ["It was {a_friend}, wet and cold.", "There stood {a_friend}, and its house was gone with the wind."],
        ["\"Come in quickly!\" said {name}.", "{name} opened the door wide. \"Come in and get warm!\" {he} said."],
        ["They ate {food} and listened to the rain together.", "{name} gave the {friend} a blanket and some {food}."],
        ["The next morning the sun was shining, and they built a new house together.",
         "In the morning the sky was blue again, and all the neighbors came to build a new house."],
        ["It stood right beside {name}'s home.", "Now they were neighbors and met every day."]]),
}

OBJECT_PLOTS = {
    "old": (["old things can still make people happy", "with patience almost everything can be mended"], [
        ["One {day}, {name} found an old {topic} in the attic.", "{name} was a {adj} {kid}. One {day}, {he} found a broken {topic}.",
         "There was once a {kid} named {name} who found an old {topic} behind the house."],
        ["It was dusty, and nobody had looked at it for years.", "It was covered with dust and looked very sad."],
        ["\"Throw it away,\" said {his} brother.", "\"It is good for nothing,\" said the neighbors."],
        ["But {name} said, \"No, I will make it beautiful again.\"", "But {name} took it home and began to work."],
        ["{He} cleaned it, mended it and painted it {color}.", "All week {he} washed it, repaired it and gave it a new {color} color."],
        ["When it was ready, the {topic} looked like new.", "At last the {topic} was shining in the sun."],
        ["{name} gave it to {his} grandmother, and her eyes filled with tears of joy.",
         "{name} showed it to {his} grandfather. \"That was mine when I was little!\" he said."]]),
    "wish": (["everyone is special to somebody", "it is worth waiting for a friend"], [
        ["In the window of a small shop there was {a_color} {topic}.", "Once there was a little {color} {topic} in an old shop."],
        ["Every day it watched the people go by, but nobody wanted it.", "It waited and waited, but nobody took it home."],
        ["\"I am too small and too plain,\" thought the {topic}.", "\"Maybe nobody needs me,\" the {topic} thought sadly."],
        ["One {day}, a {kid} named {name} stopped at the window.", "Then one {day}, a {adj} {kid} named {name} came in."],
        ["\"Look!\" said {name}. \"That is the one I have been dreaming of!\"", "\"This {topic} is perfect!\" said {name}."],
        ["{He} paid with three coins from {his} pocket and carried it home.", "{He} took it home very carefully, as if it were made of gold."],
        ["From that day on, {name} and the {color} {topic} were always together.", "The {topic} got a place beside {his} bed, and it was lonely no more."]]),
    "lostthing": (["a friend who helps is better than any treasure", "it is good to ask for help"], [
        ["{name} had a {color} {topic} and loved it very much.", "There was once a {kid} named {name} who had a wonderful {topic}."],
        ["One {day}, the {topic} was gone.", "But one {day}, {he} could not find the {topic} anywhere."],
        ["{name} looked under the bed, behind the door and in the garden.", "{He} looked in every room and in every corner."],
        ["\"Do not be sad,\" said {his} friend {fname}. \"We will look together.\"", "{His} friend {fname} said, \"Two pairs of eyes see more than one.\""],
        ["They asked the baker, the teacher and the old {friend}.", "They walked through the whole village and asked everyone."],
        ["At last {fname} saw something {color} under a tree.", "Then they heard a noise in the grass, and {fname} ran to look."],
        ["It was the {topic}! A little {friend} was sleeping beside it.", "There was the {topic}, and {a_friend} was playing with it."],
        ["They all laughed and played together until evening.", "{name} laughed and said, \"Next time, we can all play together.\""]]),
}

PLACE_PLOT = (["the world is full of small wonders", "a good day is better with a friend"], [
    ["{name} had always wanted to see the {topic}.", "There was once a {kid} named {name} who dreamed of the {topic}."],
    ["One {day}, {he} packed some {food} and a bottle of water.", "One {day}, {his} grandfather said, \"Today we will go there.\""],
    ["The way was long, but the birds were singing.", "They walked for a long time, and {name} asked, \"Are we there yet?\""],
    ["When {he} saw the {topic} at last, {he} could not speak.", "At last, there was the {topic}, and it was more beautiful than in any dream."],
    ["There {he} met {a_friend} who said, \"Welcome! Let me show you everything.\"", "{A_friend} came out and said hello."],
    ["They played and laughed the whole day.", "They looked at everything and told each other stories."],
    ["In the evening, {name} found a small white stone and took it home.", "When the sun went down, {he} went home, tired and happy."]])

THEME_PLOT = (["the best things in life can not be bought", "small things can change a whole day"], [
    ["{name} was a {adj} {kid} who loved {topic} more than anything.", "There was once a {kid} named {name} who often thought about {topic}."],
    ["But in {his} town, nobody cared about {topic}.", "One {day}, {he} asked, \"Why does nobody here talk about {topic}?\""],
    ["\"We have no time,\" the people said.", "\"We are too busy,\" said the baker and the teacher."],
    ["So {name} invited everyone to a small party in the garden.", "So {name} wrote a big sign: \"Come tomorrow, and bring a friend!\""],
    ["First only {fname} came, then {a_friend}, and then the whole town.", "At first nobody came. Then came {fname}, and then more and more people."],
    ["They sang, they ate {food}, and everyone talked about {topic}.", "All evening there was talk of {topic}, and everyone ate {food}."],
    ["\"We should do this every year,\" said the old baker.", "\"Now I understand,\" said the teacher and smiled."]])

PAIR_PLOT = (["a friend is worth more than being right", "saying sorry is the first step"], [
    ["Once there was {a} named {name} and {a2} named {fname}.", "{name} the {topic} and {fname} the {topic2} were best friends.",
     "A {adj} {topic} named {name} had a friend, {a2} named {fname}."],
    ["They played together every day.", "Every day they met {place}."],
    ["But one {day}, they both wanted the same {thing}.", "One {day}, they found a {thing} and both wanted to have it."],
    ["\"It is mine!\" said {name}. \"No, mine!\" said {fname}.", "They shouted at each other and went home angry."],
    ["The next day was quiet and very boring.", "That night, neither of them could sleep."],
    ["So {name} took the {thing} and knocked at the door of {fname}.", "In the morning, {name} went to {fname} with the {thing}."],
    ["\"I am sorry,\" said {name}. \"You can have it.\"", "\"I am sorry,\" said {name}. \"I missed you more than the {thing}.\""],
    ["\"Let us share it,\" said {fname}, and they laughed.", "{fname} smiled. \"We can use it together,\" {fname} said."]])

# What a question may say about each plot.
WISH = {"lost": [" who gets lost", " that is lost in the forest", " who wants to go home", " who loses the way"],
        "fear": [" who is afraid of {fear}", " that is afraid of {fear}", " who becomes brave"],
        "found": [" who finds a {thing}", " that finds a {thing}", " who is honest", " and a {thing}"],
        "share": [" who shares", " who shares food with {a_friend}", " in {season}", " who is kind"],
        "race": [" who runs a race", " in a race", " who wants to win a race"],
        "learn": [" who wants to {skill}", " that wants to {skill}", " who learns to {skill}", " who can not {skill}"],
        "storm": [" in a storm", " and a storm", " on a rainy day", " in the rain"]}

DAYS = ["day", "morning", "evening", "afternoon"]
FEARS = ["the dark", "deep water", "thunder", "loud noises", "high places", "strangers"]
SKILLS = ["sing", "dance", "swim", "fly a kite", "play the drum", "paint pictures", "bake bread", "climb trees", "juggle"]
THINGS = ["ring", "key", "coin", "ball", "bell", "book", "whistle", "necklace", "hat", "lamp"]
COLORS = ["red", "blue", "green", "yellow", "white", "purple"]


def a(noun):
    return ("an " if noun[0] in "aeiou" and not noun.startswith(("uni", "one", "use")) else "a ") + noun


def fillings(p, topic):
    girl = topic in W.GIRLS_EN or (topic not in W.BOYS_EN and p.chance(0.5))
    name = p.key(W.NAMES_EN_F if girl else W.NAMES_EN_M)
    fname = p.key(W.NAMES_EN_M if girl else W.NAMES_EN_F)
    he, his, him = ("she", "her", "her") if girl else ("he", "his", "him")
    friend = p.any([w for w in (p.any(W.FRIENDS_EN), p.any(W.FRIENDS_EN)) if w != topic] or ["bird"])
    adj, color, place = p.any(W.ADJ_EN), p.any(COLORS), p.any(PLACES)
    return {"topic": topic, "a": a(topic), "name": name, "fname": fname, "he": he, "his": his, "him": him,
            "He": he.capitalize(), "His": his.capitalize(), "adj": adj, "a_adj": a(adj), "place": place,
            "Place": place[0].upper() + place[1:], "friend": friend, "a_friend": a(friend),
            "A_friend": a(friend).capitalize(), "food": p.any(W.FOODS_EN), "day": p.any(DAYS),
            "fear": p.any(FEARS), "skill": p.any(SKILLS), "thing": p.any(THINGS), "color": color,
            "a_color": a(color), "kid": "girl" if girl else "boy", "season": p.any(["winter", "autumn"])}


def render(p, plot, f, opening):
    morals, slots = plot
    f["moral"] = p.any(morals)
    lines = [p.any(OPEN)] if opening else []
    lines += [p.any(s) for s in slots]
    lines.append(p.any(END))
    return " ".join(lines).format(**f)


def hero(p):
    """Filling and plot for an animal or a person, sometimes with a wish about the plot or the name."""
    topic = p.key(W.ANIMALS_EN if p.chance(0.6) else W.PEOPLE_EN)
    f = fillings(p, p.made_up() if p.chance(0.12) else topic)
    plot, r = p.any(list(HERO_PLOTS)), p.rng.random()
    if r < 0.18:
        f["a"] = f["a_adj"] + " " + f["topic"]
    elif r < 0.30:
        f["a"] += p.any([" named ", " called "]) + f["name"]
    elif r < 0.50:
        f["a"] = (f["a"] if p.chance(0.7) else f["a_adj"] + " " + f["topic"]) + p.any(WISH[plot]).format(**f)
    return f, HERO_PLOTS[plot]


def thing(p):
    """The same for a thing."""
    f = fillings(p, p.made_up() if p.chance(0.06) else p.key(W.OBJECTS_EN))
    plot, r = p.any(list(OBJECT_PLOTS)), p.rng.random()
    if r < 0.2:
        f["a"] = {"old": "an old ", "lostthing": "a lost ", "wish": "a lonely "}[plot] + f["topic"]
    elif r < 0.4:
        f["a"] = f["a_color"] + " " + f["topic"]
        plot = plot if plot != "old" else "wish"
    elif r < 0.5:
        f["a"] = f"a {f['kid']} and " + p.any([f["his"] + " " + f["topic"], a(f["topic"])])
    return f, OBJECT_PLOTS[plot]


def tell(p):
    """(question, answer)"""
    kind = p.rng.random()
    if kind < 0.10:
        return tell_free(p)
    if kind < 0.16:
        return tell_pair(p)
    if kind < 0.62:
        (f, plot), opening = hero(p), True
    elif kind < 0.86:
        (f, plot), opening = thing(p), False
    elif kind < 0.92:
        plot, f, opening = PLACE_PLOT, fillings(p, p.key(W.PLACES_EN)), False
        f["a"] = p.any(["the ", "the ", "a "]) + f["topic"]
        f["a"] = a(f["topic"]) if f["a"].startswith("a ") else f["a"]
    else:
        plot, f, opening = THEME_PLOT, fillings(p, p.key(W.THEMES_EN)), False
        f["a"] = f["topic"]
    ask = p.key(ASK_TOPIC).format(**f)
    return ask, fix_a(render(p, plot, f, opening))


def tell_free(p):
    f = fillings(p, p.any(W.ANIMALS_EN[:40]))
    return p.key(ASK_FREE), fix_a(render(p, p.any(list(HERO_PLOTS.values())), f, True))


def tell_pair(p):
    f = fillings(p, p.key(W.ANIMALS_EN))
    f["topic2"] = p.key(W.ANIMALS_EN)
    while f["topic2"] == f["topic"]:
        f["topic2"] = p.any(W.ANIMALS_EN)
    f["a2"] = a(f["topic2"])
    ask = p.key(ASK_TOPIC).format(**{**f, "a": f["a"] + " and " + f["a2"]})
    return ask, fix_a(render(p, PAIR_PLOT, f, False))


def fix_a(text):
    """"a honest", "a old": the article before an inserted vowel."""
    out = text.split(" ")
    for i in range(len(out) - 1):
        if out[i] in ("a", "A") and out[i + 1][:1] in "aeiou" and not out[i + 1].startswith("uni"):
            out[i] += "n"
    return " ".join(out)
